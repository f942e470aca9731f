"""Texts as token numbers: words, characters, subwords or text between blanks, learned from the training split only."""
