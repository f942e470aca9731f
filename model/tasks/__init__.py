"""What is learned from the data: the network's input and output, its loss and its metrics, one file per task."""
