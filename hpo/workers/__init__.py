"""Everything that trains: dispatchers with their workers, objectives, and the training of one task."""
