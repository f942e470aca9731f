"""What there is to split: how many examples, their labels and hashes, and where they come from."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hpo.errors import DataError

Indices = tuple[int, ...]


@dataclass(frozen=True)
class Examples:
    """What there is to split, as an objective's `describe_data` tells it.

    Attributes:
        size: number of examples; they are numbered from 0.
        labels: the class of each example, for stratified splits and the label counts; None where there is none.
        groups: examples of one group never stand on two sides of a split; None where there are none.
        digests: a hash of each example's content, for fingerprints and duplicates; None where unknown.
        parts: sizes of the predefined parts (`train`, `validation`, `test`); the examples stand in that order.
        name, version, source, licence, files: where the data comes from; files with their SHA-256.
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

    def __post_init__(self) -> None:
        for name in ("labels", "groups", "digests"):
            given = getattr(self, name)
            if given is not None and len(given) != self.size:
                raise DataError(f"data: {name} must be one an example, given {len(given)} for {self.size} examples")
        if self.parts is not None and sum(self.parts.values()) != self.size:
            raise DataError(f"data: the parts must add up to the {self.size} examples, given {dict(self.parts)}")
        if self.size == 0:
            raise DataError("data: there is no example in it")

    def part(self, name: str) -> Indices:
        """Return the indices of a predefined part; empty where there is no such part."""
        start = 0
        for part in ("train", "validation", "test"):
            length = (self.parts or {}).get(part, 0)
            if part == name:
                return tuple(range(start, start + length))
            start += length
        raise ValueError(f"no such part: {name}")

    def fingerprint(self, indices: Sequence[int]) -> str:
        """Return a SHA-256 over the content of these examples, whatever their order.

        Without digests of the content, the indices and labels stand for it.
        """
        if self.digests is not None:
            lines = sorted(self.digests[i] for i in indices)
        else:
            labels = self.labels
            lines = [f"{i}:{labels[i] if labels is not None else ''}" for i in indices]
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()
