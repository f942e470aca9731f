"""Seals: short hashes beside what is recorded, so that a bit that changed on the disk is noticed when it is read."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

# The name of a seal inside a recorded dict, and among a trial's attributes.
SEAL = "seal"
# 64 bits: chance changes go unnoticed once in 10**19 times. Nobody who wants to deceive is meant to be kept out.
_DIGITS = 16


class BrokenSealError(ValueError):
    """What was read is not what was written."""


def seal(value: Any, *place: Any) -> str:
    """Return the seal of a JSON-able value in its place: the same value elsewhere has another one."""
    return hashlib.sha256(json.dumps([*place, value], sort_keys=True).encode()).hexdigest()[:_DIGITS]


def sealed(values: Mapping[str, Any], *place: Any) -> dict[str, Any]:
    """Return a dict with its seal in it."""
    return {**values, SEAL: seal(values, *place)}


def unsealed(values: Mapping[str, Any], *place: Any) -> dict[str, Any]:
    """Return a dict without its seal.

    Raises:
        BrokenSealError: it has none, or that of other values.
    """
    plain = {name: value for name, value in values.items() if name != SEAL}
    if values.get(SEAL) != seal(plain, *place):
        raise BrokenSealError(f"{' '.join(map(str, place))} is not what was written")
    return plain
