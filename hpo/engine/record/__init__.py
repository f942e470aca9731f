"""The record: what was proposed and what came of it, in an Optuna storage that one process writes."""
