"""The data of a search: the space, the trial, the goal, the history, the record."""
