"""The examples to split, with their number, labels, hashes and source."""

import hashlib
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hpo.errors import DataError

Indices = tuple[int, ...]

_PARTS = ("train", "validation", "test")


@dataclass(frozen=True)
class Examples:
    """The examples to split, as described by an objective's `describe_data`.

    Attributes:
        size: number of examples; they are numbered from 0.
        labels: the class of each example, for stratified splits and label counts; None = no classes.
        groups: the group of each example. All examples of a group are put into the same split. None = no groups.
        digests: a hash of each example's content, to compute fingerprints and find duplicates; None = unknown.
        recurring: the indices of the examples whose content occurs again by chance, such as blank lines. These examples
            do not count as duplicates.
        parts: sizes of the predefined splits `train`, `validation` and `test`. The examples must be in this order. None
            = no splits are predefined. A size of 0 means that there is no such split, and that none is to be made.
        is_ordered: whether neighbouring examples depend on each other, as in running text or a time series. Then each
            held-out split and each fold consists of consecutive examples.
        name, version, source, licence, files: where the data comes from. Each file has its SHA-256.
        notes: lines to show to the user, about how the data was read.
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
    recurring: Sequence[int] = ()
    is_ordered: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", operator.index(self.size))
        for name in ("labels", "groups", "digests"):
            if (given := getattr(self, name)) is None:
                continue
            if len(given) != self.size:
                raise DataError(f"data: {name} must have {self.size} values, one per example, given {len(given)}")
            # A Series of pandas would look up its index.
            object.__setattr__(self, name, list(given))
        if self.parts is not None:
            parts = {name: operator.index(size) for name, size in self.parts.items()}
            object.__setattr__(self, "parts", parts)
            if unknown := parts.keys() - set(_PARTS):
                allowed = ", ".join(_PARTS)
                raise DataError(f"data: each name in 'parts' must be one of {allowed}, given {min(unknown)!r}")
            if parts.get("train", 0) == 0 or min(parts.values()) < 0:
                raise DataError(f"data: 'parts' must have a train split and no size below 0, given {parts}")
            if sum(parts.values()) != self.size:
                raise DataError(
                    f"data: the sizes in 'parts' must add up to {self.size}, the number of examples, given {parts}"
                )
        if self.is_ordered and self.groups is not None:
            raise DataError("data: must not have both groups and is_ordered=True; leave out one of them")
        if self.size == 0:
            raise DataError("data: must have at least one example, given none")

    def part(self, name: str) -> Indices:
        """Return the indices of a predefined split; empty if the data has no such split."""
        parts = self.parts or {}
        start = sum(parts.get(part, 0) for part in _PARTS[: _PARTS.index(name)])
        return tuple(range(start, start + parts.get(name, 0)))

    @property
    def compared_by(self) -> str:
        """A text that says which properties of the examples `fingerprint` hashes."""
        if self.digests is not None:
            return "the digests of its examples"
        labels = "numbers" if self.labels is None else "numbers and labels"
        return f"the {labels} of its examples, because they have no digests; other data may have the same {labels}"

    def fingerprint(self, indices: Sequence[int]) -> str:
        """Return a SHA-256 of the digests of these examples; the order of the digests does not matter.

        If the examples have no digests, use their indices and labels instead; then the order of `indices` matters.
        """
        if self.digests is not None:
            lines = sorted(self.digests[i] for i in indices)
        else:
            labels = self.labels
            lines = [f"{i}:{labels[i] if labels is not None else ''}" for i in indices]
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()
