"""Imports studies from other libraries and exports ours. It reads databases, JSON and CSV, and unpickles nothing."""
