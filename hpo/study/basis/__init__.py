"""The basis of a study (configuration, data, code, machine), and its changes."""
