"""The training process, and the code with which its worker starts, watches and ends it."""
