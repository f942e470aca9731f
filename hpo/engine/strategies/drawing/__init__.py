"""Draws points: untried ones, evenly spread ones, children of the best, and the most promising of several."""
