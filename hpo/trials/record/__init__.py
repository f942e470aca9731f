"""The record of a study: its trials and their outcomes, in an Optuna storage to which a single process writes."""
