"""Learning tasks. A task, such as tagging, defines a network's input and output, the loss and the metrics."""
