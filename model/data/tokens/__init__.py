"""Texts as token numbers: words, characters or subwords, learned from the training split only."""
