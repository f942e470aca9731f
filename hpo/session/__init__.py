"""A study run while somebody watches: what is shown, and how signals end it."""
