"""Tracking with MLflow: a separate process writes the content of a study's record to MLflow."""
