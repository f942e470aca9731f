"""Displays of studies: on a terminal, in a notebook, on a live page, and as lines for programs."""
