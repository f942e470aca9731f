"""Composes overrides to a complete configuration. Only this package imports Hydra and omegaconf."""
