"""Scales: changes of a configuration, from a small training to the one that is meant, which a study climbs."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import AfterValidator

from hpo.config.keys import flatten, own_key

SCALE = "study.scale"
"""The key of a point that says at which scale it is trained, from 1; the last is the target."""


def _flat(given: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    scales = [{own_key(key): value for key, value in flatten(changes).items()} for changes in given]
    if len(scales) < 2:
        raise ValueError("must be two or more, the smallest first and the target last")
    for number, changes in enumerate(scales, start=1):
        if not changes:
            raise ValueError(f"scale {number} changes nothing; give keys and values, such as model.d_model: 64")
        if changes in scales[: number - 1]:
            raise ValueError(f"scale {number} is the same as scale {scales.index(changes) + 1}; leave one of them out")
    return scales


Scales = Annotated[list[dict[str, Any]], AfterValidator(_flat)]


def at_scale(point: Mapping[str, Any], scales: Sequence[Mapping[str, Any]] | None) -> Mapping[str, Any]:
    """Return the values by key that a point stands for: its own, and those of its scale instead of the number."""
    if SCALE not in point or scales is None:
        return point
    own = {key: value for key, value in point.items() if key != SCALE}
    return {**scales[point[SCALE] - 1], **own}


def changed_keys(scales: Sequence[Mapping[str, Any]] | None) -> list[str]:
    """Return the keys that scales change, each once."""
    return list(dict.fromkeys(key for changes in scales or () for key in changes))
