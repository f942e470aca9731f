"""Readers of data, and a table of the readers by data.name."""
