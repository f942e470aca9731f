"""Studies from and to other libraries. It reads databases, JSON and CSV, and unpickles nothing."""
