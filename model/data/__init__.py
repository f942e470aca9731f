"""Data: readers of files, the store of examples for workers, tokens, and batches."""
