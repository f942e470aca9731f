"""MLflow as the tracker: a separate process writes the content of the record."""
