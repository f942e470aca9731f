"""Imports studies of other libraries, and exports studies. The import reads databases, JSON and CSV, but no pickles."""
