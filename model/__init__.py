"""Networks and their trainer: data, networks, optimisation and checkpoints. The package imports nothing from hpo."""
