"""A study, or a comparison, run at a terminal: progress, signals, and the end of the process."""
