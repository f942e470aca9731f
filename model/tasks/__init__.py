"""Tasks: a task defines the input and output of a network, the loss and the metrics; one file per task."""
