"""Data: readers of files, tokens, batches, and the store of examples for workers."""
