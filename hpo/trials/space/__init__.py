"""The search space: its dimensions, its rules, and the points in it."""
