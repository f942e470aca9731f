"""Readers of data, one file per kind of data, and the table of all readers."""
