"""Runs a study to its end. Starts workers, handles signals and user requests, and updates status files and mirror."""
