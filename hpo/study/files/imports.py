"""Finished trials of another study, from which a strategy learns."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hpo.config.documents import read_json, read_yaml
from hpo.engine.space.dimensions import as_values
from hpo.engine.space.space import Point, Space, point_key
from hpo.engine.trials.table import csv_text, own_columns, point_of, read_rows
from hpo.engine.trials.trial import Direction, Trial, loss_of
from hpo.errors import ConfigError
from hpo.files import write_atomically
from hpo.study.files.folder import RUNS

# The round of imported trials, before a study's own first round.
BEFORE = -1


def read_imports(reference: str, space: Space, metric: str, direction: Direction) -> list[Trial]:
    """Return the finished trials of another study whose points are in this space, the first of each, numbered below 0.

    `reference` is its name, its folder, or a table with the columns of trials.csv. ConfigError where there is no such
    table, it was made for another metric, or no trial fits; StudyError where it lacks columns.
    """
    path = table_path(reference)
    _refuse_other_metric(path, metric, direction)
    # A table may lack a dimension with a condition.
    always = [dimension.key for dimension in space.dimensions if not dimension.when]
    rows = read_rows(path, ("state", "score", *own_columns(always)))
    # Of trials by amounts only those that were trained longest compare with whole trainings.
    longest = max((int(row["amount"]) for row in rows if row.get("amount")), default=None)
    rows = [row for row in rows if longest is None or row.get("amount") == str(longest)]
    trials: dict[str, Trial] = {}
    for line, row in enumerate(rows, start=2):
        if row["state"] not in ("complete", "failed"):
            continue
        point = point_of(row, space)
        if point is not None:
            trials.setdefault(point_key(point), _trial(point, row, f"{path}:{line}", direction))
    if not trials:
        raise ConfigError(f"study.imports: none of the {len(rows)} trials in {path} is in this space")
    # From -n to -1: on ties they rank before the study's own trials, in their own order.
    return [replace(trial, number=place - len(trials)) for place, trial in enumerate(trials.values())]


def table_path(reference: str) -> Path:
    """Return the table of trials of another study, given by its name, its folder or that table; see `read_imports`."""
    for path in (Path(reference), Path(reference) / "trials.csv", RUNS / reference / "trials.csv"):
        if path.is_file():
            return path
    raise ConfigError(
        f"study.imports: there is no study and no trials.csv at {reference!r}; see `ls {RUNS}`, or take over what "
        f"another program has: `hpo import NAME --help`"
    )


def to_notes(trials: Sequence[Trial]) -> list[dict[str, Any]]:
    """Return imported trials as the record keeps them."""
    return [
        {"point": dict(t.point), "state": t.state, "score": t.score, "loss": t.loss if math.isfinite(t.loss) else None}
        for t in trials
    ]


def write_imports(path: Path, trials: Sequence[Trial], keys: Sequence[str]) -> None:
    """Write imported trials as a table for `read_imports`."""
    rows = [[trial.state, trial.score, *(trial.point.get(key) for key in keys)] for trial in trials]
    write_atomically(path, csv_text([["state", "score", *keys], *rows]))


def from_notes(notes: list[Mapping[str, Any]] | None) -> list[Trial]:
    """Return the imported trials that a record keeps."""
    trials = [_made(as_values(note["point"]), note["state"], note["score"], note["loss"]) for note in notes or ()]
    return [replace(trial, number=place - len(trials)) for place, trial in enumerate(trials)]


def _refuse_other_metric(path: Path, metric: str, direction: Direction) -> None:
    other = _origin(path)
    # An imported metric may have had another name in its source; the direction must be the same.
    names = (("metric", metric), ("direction", direction)) if "seed" in other else (("direction", direction),)
    for name, ours in names:
        if other.get(name) not in (None, ours):
            raise ConfigError(f"study.imports: {path} was made for the {name} {other[name]}, this study has {ours}")


def _origin(path: Path) -> Mapping[str, Any]:
    """Return what the files in a table's folder say of its study: a frozen configuration, or `hpo import`'s file."""
    config_path, import_path = path.with_name("config.yaml"), path.with_name("import.json")
    for beside, read in ((config_path, read_yaml), (import_path, read_json)):
        if beside.exists():
            content = read(beside, "study.imports")
            study = content.get("study", content)
            return study if isinstance(study, Mapping) else {}
    return {}


def _trial(point: Point, row: Mapping[str, str], where: str, direction: Direction) -> Trial:
    if row["state"] == "failed":
        return _made(point, "failed", None, None)
    try:
        score = float(row["score"])
    except ValueError as error:
        raise ConfigError(f"study.imports: {where}: score must be a number, given {row['score']!r}") from error
    return _made(point, "complete", score, loss_of(score, direction))


def _made(point: Point, state: Any, score: float | None, loss: float | None) -> Trial:
    return Trial(0, BEFORE, point, state=state, score=score, loss=float("inf") if loss is None else loss)
