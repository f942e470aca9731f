"""Trainings that run elsewhere: whoever asks for a trial trains it, and tells what came of it."""

from collections.abc import Mapping
from typing import Any

OUTSIDE = f"{__name__}:run_fold"
"""The objective of a study whose trials are asked for and told."""

# Whoever trains keeps its states.
CONTINUES = True
# Rises where the same answers would be other trials.
REVISION = 1


def describe_search(config: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG001 -- the same call as its siblings
    """Return that anything may be searched."""
    return {"keys": None}


def describe_method(config: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG001 -- the same call as its siblings
    """Return what a report says of every training."""
    where = "trained elsewhere, by whoever asked for the trial"
    return {
        "preprocessing": where,
        "vocabulary": where,
        "checkpoint": f"{where}, who told the score",
        "determinism": f"{where}: nothing here can repeat it",
    }


def run_fold(task: Mapping[str, Any]) -> dict[str, float]:
    """Raise RuntimeError: nothing trains here."""
    raise RuntimeError(f"nothing trains here: study '{task['study']}' is asked and told: `hpo ask`, `hpo tell`")
