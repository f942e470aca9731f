"""Learning tasks, such as tagging: a task defines a network's input and output, the loss and the metrics."""
