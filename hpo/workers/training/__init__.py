"""The training of one task, from its payload to its outcome, and the splits of the data."""
