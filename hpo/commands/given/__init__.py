"""Converts arguments from Python (functions, spaces and settings) into a configuration."""
