"""Readers of data: one file per kind, and the table of which reads which data."""
