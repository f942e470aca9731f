"""Observers of a search, which cannot influence it: what they are told, and those that keep files or stop it."""
