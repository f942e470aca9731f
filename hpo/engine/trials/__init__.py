"""Trials: proposals, their outcomes, and the table of trials."""
