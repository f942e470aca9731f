"""The examples to split: their number, labels, hashes and origin."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hpo.errors import DataError

Indices = tuple[int, ...]


@dataclass(frozen=True)
class Examples:
    """The examples to split, as an objective's `describe_data` describes them.

    Attributes:
        size: number of examples; they are numbered from 0.
        labels: the class of each example, for stratified splits and label counts; None = no classes.
        groups: examples of one group are never on two sides of a split; None = no groups.
        digests: a hash of each example's content, for fingerprints and duplicates; None = unknown.
        parts: sizes of the predefined splits (`train`, `validation`, `test`); the examples are in that order.
        name, version, source, licence, files: the origin of the data; files have their SHA-256.
        notes: lines for the user about how the data was read.
    """

    size: int
    labels: Sequence[Any] | None = None
    groups: Sequence[Any] | None = None
    digests: Sequence[str] | None = None
    parts: Mapping[str, int] | None = None
    name: str = ""
    version: str | None = None
    source: str = ""
    licence: str | None = None
    files: Sequence[Mapping[str, Any]] = ()
    notes: Sequence[str] = ()

    def __post_init__(self) -> None:
        for name in ("labels", "groups", "digests"):
            given = getattr(self, name)
            if given is not None and len(given) != self.size:
                raise DataError(f"data: {name} must have one value per example, {self.size} (given {len(given)})")
        if self.parts is not None and sum(self.parts.values()) != self.size:
            raise DataError(f"data: the parts must add up to the {self.size} examples, given {dict(self.parts)}")
        if self.size == 0:
            raise DataError("data: must have at least one example (given none)")

    def part(self, name: str) -> Indices:
        """Return the indices of a predefined split; empty if it does not exist."""
        start = 0
        for part in ("train", "validation", "test"):
            length = (self.parts or {}).get(part, 0)
            if part == name:
                return tuple(range(start, start + length))
            start += length
        raise ValueError(f"no such part: {name}")

    @property
    def compared_by(self) -> str:
        """A text about what a fingerprint is computed from."""
        if self.digests is not None:
            return "the digests of its examples"
        labels = "numbers" if self.labels is None else "numbers and labels"
        return f"the {labels} of its examples, because they have no digests: other data may have the same"

    def fingerprint(self, indices: Sequence[int]) -> str:
        """Return a SHA-256 of these examples in any order: of their digests, or else of indices and labels."""
        if self.digests is not None:
            lines = sorted(self.digests[i] for i in indices)
        else:
            labels = self.labels
            lines = [f"{i}:{labels[i] if labels is not None else ''}" for i in indices]
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()
