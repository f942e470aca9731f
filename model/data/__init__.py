"""Data: readers, the store with the examples that a worker may read, tokens, and batches."""
