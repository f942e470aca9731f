"""Checksums beside what is recorded, so that a bit that changed on the disk is noticed when it is read."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

# The name of a checksum inside a recorded dict, and among a trial's attributes.
CHECKSUM = "checksum"
# 64 bits: chance changes go unnoticed once in 10**19 times. Nobody who wants to deceive is meant to be kept out.
_DIGITS = 16


class ChecksumError(ValueError):
    """What was read is not what was written."""


def checksum(value: Any, *place: Any) -> str:
    """Return the checksum of a JSON-able value in its place: the same value elsewhere has another one."""
    return hashlib.sha256(json.dumps([*place, value], sort_keys=True).encode()).hexdigest()[:_DIGITS]


def with_checksum(values: Mapping[str, Any], *place: Any) -> dict[str, Any]:
    """Return a dict with its checksum in it."""
    return {**values, CHECKSUM: checksum(values, *place)}


def checked(values: Mapping[str, Any], *place: Any) -> dict[str, Any]:
    """Return a dict without its checksum.

    Raises:
        ChecksumError: it has none, or that of other values.
    """
    plain = {name: value for name, value in values.items() if name != CHECKSUM}
    if values.get(CHECKSUM) != checksum(plain, *place):
        raise ChecksumError(f"{' '.join(map(str, place))} is not what was written")
    return plain
