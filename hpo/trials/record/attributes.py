"""The user attributes by which a trial in an Optuna storage is known as one of a study of ours."""

from collections.abc import Mapping
from typing import Any

# Its number in the study; its number in Optuna is another where other programs write trials, too.
NUMBER = "number"
# Every trial of ours has it, and no other program's.
ROUND = "round"
# The id of its study.
STUDY = "study"


def is_of_study(attributes: Mapping[str, Any], study: str | None) -> bool:
    """Return whether these are attributes of a trial of the study with this id: others may copy those of another."""
    return NUMBER in attributes and attributes.get(STUDY) == study
