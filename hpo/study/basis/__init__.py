"""The basis of a study (configuration, data, code, environment), and the changes of this basis."""
