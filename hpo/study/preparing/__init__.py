"""A study before its first trial: built from its configuration, checked, and told what it was as begun."""
