"""Tasks: the network's input and output, its loss and its metrics, one file per task."""
