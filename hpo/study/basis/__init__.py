"""The basis of a study (configuration, data, code, environment) and its changes."""
