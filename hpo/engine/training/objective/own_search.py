"""What an objective knows of its own search."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self


@dataclass(frozen=True)
class DataFile:
    """A file that an objective reads: its path as given, the SHA-256 of its content in hexadecimal, its size."""

    path: str
    sha256: str
    bytes: int


@dataclass(frozen=True)
class OwnSearch:
    """What an objective's `describe_search` returns.

    Attributes:
        space: a tree as in conf/space; the study's own overrides it.
        keys: what the study's own may have besides keys of the configuration; None = anything.
        needs: keys that the study's space or the configuration must have.
        points: all existing points; None = the space defines them.
        folds: number of the objective's own folds.
        files: the files that it reads.
        notes: lines for people.
        amounts_need: what the configuration lacks for trainings to be continued; None = nothing.
    """

    space: Mapping[str, Any] = field(default_factory=dict)
    keys: Sequence[str] | None = ()
    needs: Sequence[str] = ()
    points: Sequence[Mapping[str, Any]] | None = None
    folds: int = 1
    files: tuple[DataFile, ...] = ()
    notes: tuple[str, ...] = ()
    amounts_need: str | None = None

    @classmethod
    def from_dict(cls, described: Mapping[str, Any]) -> Self:
        """Read what `describe_search` returned; raises TypeError for an unknown key or wrong type."""
        files = tuple(DataFile(**file) for file in described.get("files", ()))
        notes = tuple(str(note) for note in described.get("notes", ()))
        return cls(**{**described, "folds": int(described.get("folds", 1)), "files": files, "notes": notes})
