"""Comparing whole searches: which strategy is better at equal budget, and with what certainty."""
