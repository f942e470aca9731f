"""Converts texts to token numbers. The vocabulary comes only from the training split.

Tokens are words, characters, subwords, or the pieces of text between blanks.
"""
