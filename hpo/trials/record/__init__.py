"""The record: proposals and their outcomes, in an Optuna storage that one process writes."""
