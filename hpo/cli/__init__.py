"""The command `hpo`: one small file per sub-command. Hydra is imported only here."""
