"""The training process, and the worker's code that starts, watches and ends this process."""
