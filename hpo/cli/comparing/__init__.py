"""`hpo compare` in front of a person."""
