"""From overrides to a whole configuration. Hydra and omegaconf are imported only here."""
