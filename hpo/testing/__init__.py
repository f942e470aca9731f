"""Checks for a user's own strategies: the properties that the toolkit's strategies have."""

from hpo.testing.strategies import SPACES, check_strategy

__all__ = ["SPACES", "check_strategy"]
