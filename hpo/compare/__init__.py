"""Comparing whole searches: which strategy is better at equal budget, and how sure that is."""
