"""Reads files, converts texts to tokens, forms batches, and stores examples for workers."""
