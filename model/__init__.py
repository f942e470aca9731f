"""The network and its trainer: a Transformer, its data, optimisation and checkpoints. Knows nothing of hpo."""
