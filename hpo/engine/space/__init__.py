"""The space: what is searched, and the points in it."""
