"""Imports studies of other libraries, and exports studies. Import reads databases, JSON and CSV, and no pickles."""
