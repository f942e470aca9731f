"""The objective: how it is found, its optional functions, and plain functions as objectives."""
