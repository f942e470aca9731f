"""Checks for what others write for the toolkit: the promises that its own strategies keep."""

from hpo.testing.strategies import SPACES, check_strategy

__all__ = ["SPACES", "check_strategy"]
