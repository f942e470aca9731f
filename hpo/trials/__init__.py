"""The nouns: the space, the trial, the goal, the history, the record."""
