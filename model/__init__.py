"""Networks and their trainer: data, networks, optimisation and checkpoints. It imports nothing from hpo."""
