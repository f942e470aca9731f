"""The command `hpo`: one small file a sub-command. Hydra is imported only here."""
