"""Decoding sequences from a network's probabilities: beam search and sampling."""
