"""The space: its dimensions, and the points in it."""
