"""Trials: what was proposed, what came of it, and the table of them."""
