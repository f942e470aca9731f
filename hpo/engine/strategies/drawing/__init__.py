"""Draws points: untried points, evenly spread points, children of the best points, and promising candidates."""
