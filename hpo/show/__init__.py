"""Displays of a running study: on a terminal, in a notebook, and as lines for programs."""
