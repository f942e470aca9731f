"""What is given from Python, as a configuration: functions, spaces, settings."""
