"""The display and the run of `hpo compare` at a terminal."""
