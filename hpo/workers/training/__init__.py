"""One task, from its payload to its outcome, and the parts of the data that it may see."""
