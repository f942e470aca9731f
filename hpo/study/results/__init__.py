"""The results of a search, from its record: trials, later trainings, the winner and its expected score."""
