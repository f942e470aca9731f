"""Prepares a study: builds it from a configuration, and runs all checks before anything is created."""
