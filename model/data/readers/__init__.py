"""Readers of data, one file per kind, and their table."""
