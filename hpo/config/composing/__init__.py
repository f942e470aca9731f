"""From the command line to a configuration. Hydra and omegaconf are imported only here."""
