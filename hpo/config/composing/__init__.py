"""Composes a complete configuration from overrides. Only this package imports Hydra and omegaconf."""
