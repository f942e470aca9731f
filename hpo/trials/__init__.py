"""The data of a search: the space, the trials, the goal, the history and the record."""
