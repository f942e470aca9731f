"""The command `hpo`: one small file per sub-command."""
