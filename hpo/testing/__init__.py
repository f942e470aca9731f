"""Tests for strategies: a user's strategy must have the same properties as the toolkit's strategies."""

from hpo.testing.strategies import SPACES, check_strategy

__all__ = ["SPACES", "check_strategy"]
