"""The network and its trainer: a Transformer, its data, optimisation and checkpoints. Imports nothing of hpo."""
