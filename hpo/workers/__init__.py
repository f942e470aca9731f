"""Who trains: dispatchers and their workers, the objective, one task from its payload to its outcome."""
