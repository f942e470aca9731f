"""Comparisons of whole searches: which strategy is better at equal budgets, and how certain the answer is."""
