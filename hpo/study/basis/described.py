"""Stores an objective's description of its data and trainings in a file, so that viewers need not read the data."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Self, cast

from pydantic import Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from hpo.config.documents import read_json
from hpo.config.study_config import explain
from hpo.errors import DocumentError
from hpo.files import write_atomically
from hpo.workers.objective.examples import Examples
from hpo.workers.objective.objective import SearchDescription
from hpo.workers.training.splits import Plan

_TEXTS = ("name", "version", "source", "licence")


class PartFigures(TypedDict):
    """The size and content of a train, validation or test split.

    Attributes:
        size: the number of examples.
        fraction: the share of all examples.
        fingerprint: a hash of the examples.
        labels: the number of examples by label; None without labels.
    """

    size: int
    fraction: float
    fingerprint: str
    labels: dict[str, int] | None


class SplitFigures(TypedDict):
    """A split of the examples, as `Plan.to_dict` returns it."""

    kind: str
    parts: dict[str, PartFigures]
    folds: list[dict[str, int]]
    duplicates: dict[str, int]


@dataclass(frozen=True)
class Described:
    """An objective's description of its data, search space and metrics; an unknown field is None or empty.

    If the objective reads its own data, `split` is None. With a single validation split, `folds` is 1. `notes` tell
    users how the examples were read.
    """

    folds: Annotated[int, Field(ge=1)]
    split: SplitFigures | None = None
    name: Any = None
    version: Any = None
    source: Any = None
    licence: Any = None
    size: int | None = None
    files: Sequence[Mapping[str, Any]] | None = None
    points: Sequence[Mapping[str, Any]] | None = None
    method: Mapping[str, Any] = field(default_factory=dict)
    notes: Sequence[str] = ()

    @classmethod
    def of(
        cls, method: Mapping[str, Any], examples: Examples | None, plan: Plan | None, own: SearchDescription
    ) -> Self:
        """Combine the results of an objective's functions into one description.

        `method` is the result of `describe_method`, `examples` the result of `describe_data`, and `own` the result of
        `describe_search`. The folds come from `plan`, and the list of data files from `examples`. If `examples` or
        `plan` is None, both the folds and the list of data files come from `own`.
        """
        if examples is None or plan is None:
            return cls(own.folds, files=[vars(file) for file in own.files], points=own.points, method=method)
        return cls(
            len(plan.folds),
            cast("SplitFigures", plan.to_dict()),
            **{key: getattr(examples, key) for key in (*_TEXTS, "size")},
            files=[dict(file) for file in examples.files],
            points=own.points,
            method=method,
            notes=list(examples.notes),
        )

    @classmethod
    def at(cls, path: Path) -> Self | None:
        """Return the description in a file; None if the file is missing, as in a published study.

        Raise DocumentError if the content is not valid.
        """
        if not path.exists():
            return None
        try:
            described: Self = TypeAdapter(cls).validate_python(read_json(path))
        except ValidationError as error:
            raise DocumentError(f"{path}: {explain(error)}; restore the file") from error
        return described

    @property
    def parts(self) -> Mapping[str, PartFigures]:
        """The size and content of the train, validation and test splits, by name; empty if the data is not split."""
        return {} if self.split is None else self.split["parts"]

    def write(self, path: Path) -> None:
        """Write the description to a file; `Described.at` reads this file."""
        write_atomically(path, json.dumps(vars(self), default=str) + "\n")
