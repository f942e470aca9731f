"""A study before its first trial: built from its configuration, and checked."""
