"""The configuration: every rule of it, how its documents are read and written, and what is kept secret in it."""
