"""Readers of data: one module for each data.name, and a table of all readers."""
