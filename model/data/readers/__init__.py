"""Readers of data: one file per kind, and which of them goes with which data."""
