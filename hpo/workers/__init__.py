"""Training: dispatchers and their workers, the objective, and one task from its payload to its outcome."""
