"""One file per command of `hpo`."""
