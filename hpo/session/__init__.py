"""Runs a study to its end: workers, signals, user requests, callbacks, the status files and the mirror."""
