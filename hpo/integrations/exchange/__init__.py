"""Studies from and to other libraries. Nothing is ever unpickled: databases, JSON and CSV are read."""
