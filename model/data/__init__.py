"""Data: reading it, keeping only the examples that a worker may see, and making batches of them."""
