"""Converts arguments from Python into a configuration: functions, spaces, settings."""
