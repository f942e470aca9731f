"""The objective of an ask-and-tell study, whose trials are trained elsewhere."""

from collections.abc import Mapping
from typing import Any

OUTSIDE = f"{__name__}:run_fold"
"""The import path of this objective, as MODULE:FUNCTION."""

# The user's own training stores the states that it continues from.
CONTINUES = True
# Increase this number when a change proposes other trials after the same reported scores.
REVISION = 1


def describe_search(config: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG001 -- the same call as its siblings
    """Return a description that lets every key be searched; see `SearchDescription`."""
    return {"keys": None}


def describe_method(config: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG001 -- the same call as its siblings
    """Return facts that hold for every training, for the report."""
    where = "unknown here: the user trained the trial elsewhere"
    return {
        "preprocessing": where,
        "vocabulary": where,
        "checkpoint": f"{where} and reported its score",
        "determinism": f"{where}, and hpo cannot repeat the training",
    }


def run_fold(task: Mapping[str, Any]) -> dict[str, float]:
    """Raise RuntimeError, because trials of an ask-and-tell study are trained elsewhere."""
    raise RuntimeError(f"another program trains the trials of study '{task['study']}'; use `hpo ask` and `hpo tell`")
