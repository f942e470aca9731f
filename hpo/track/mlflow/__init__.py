"""MLflow as the tracker: a process of its own writes what the record holds."""
