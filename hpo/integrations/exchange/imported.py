"""Trials of other libraries, and the folder that keeps them for later studies."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hpo.engine.space.space import Point
from hpo.engine.trials.goal import Goal, finished
from hpo.engine.trials.table import trials_table, twice, write_trials
from hpo.engine.trials.trial import Direction, Outcome, TaskLayout, Trial
from hpo.errors import ConfigError, StudyError, nearest
from hpo.files import write_atomically
from hpo.study.files.folder import RUNS


@dataclass(frozen=True)
class Imported:
    """The content of another study.

    Attributes:
        attempts: its finished trials, failures included, in their order, each of one fold.
        direction: which way was better; None where it is not known.
        further: which way the further metrics of a study of several were better, in their order.
        source: where it was read, without passwords.
        num_unfinished: number of unfinished trials, which were left out.
        left_out: keys that were left out because their values are not single ones, such as lists.
        constraints: names of constraints, which are no limits: those are on numbers that trials have.
    """

    attempts: Sequence[Trial]
    metric: str
    direction: Direction | None
    source: str
    num_unfinished: int = 0
    left_out: tuple[str, ...] = ()
    further: Mapping[str, Direction] = field(default_factory=dict)
    constraints: tuple[str, ...] = ()

    @property
    def metrics(self) -> dict[str, Direction]:
        """Which way each metric was better, the leading one first; `minimize` where it is not known."""
        return {self.metric: self.direction or "minimize", **self.further}

    @property
    def keys(self) -> tuple[str, ...]:
        """The hyperparameters of all trials, in the order of first appearance."""
        return tuple(dict.fromkeys(key for attempt in self.attempts for key in attempt.point))

    @property
    def num_failed(self) -> int:
        """The number of failed trials."""
        return sum(attempt.score is None for attempt in self.attempts)


def attempt(
    number: int,
    point: Point,
    metrics: Mapping[str, Direction | None],
    scores: Sequence[Any],
    seconds: float,
    error: str | None,
) -> Trial:
    """Return a trial of another library: failed where there is an error, or where a score is no finite number.

    The scores are those of the metrics, in their order.
    """
    if error is None:
        for metric, score in zip(metrics, scores, strict=True):
            if not isinstance(score, int | float) or isinstance(score, bool) or not math.isfinite(score):
                error = f"'{metric}' was {score!r}, which is not a finite number"
                break
    values = {} if error else {metric: float(score) for metric, score in zip(metrics, scores, strict=True)}
    goal = Goal({metric: direction or "minimize" for metric, direction in metrics.items()})
    return finished(Trial(number, 0, point), {0: Outcome(values, seconds=seconds, error=error)}, goal)


def renamed(imported: Imported, names: Mapping[str, str]) -> Imported:
    """Return the trials with hyperparameters renamed (old key: new key); ConfigError for one that is not there, or two
    that would get the same key.
    """
    for old in names:
        if old not in imported.keys:
            hint = nearest(old, imported.keys)
            raise ConfigError(f"rename: there is no hyperparameter '{old}'; there are {', '.join(imported.keys)}{hint}")
    new = [names.get(key, key) for key in imported.keys]
    if (again := twice(new)) is not None:
        raise ConfigError(f"rename: two hyperparameters would be called '{again}'; give each its own name")
    attempts = [
        replace(each, point={names.get(key, key): value for key, value in each.point.items()})
        for each in imported.attempts
    ]
    return replace(imported, attempts=attempts)


def import_folder(name: str) -> Path:
    """Return the folder for trials of this name; StudyError where it exists."""
    path = RUNS / name
    if path.exists():
        raise StudyError(f"import: {path} already exists; choose another name")
    return path


def write_import(path: Path, imported: Imported) -> None:
    """Write `trials.csv`, as a study has it, and `import.json` about its source, into a new folder, for
    `study.imports=NAME` of a new study; StudyError where there is no finished trial.
    """
    if not imported.attempts:
        raise StudyError(f"import: {imported.source} has no finished trial ({imported.num_unfinished} unfinished)")
    table = trials_table(imported.attempts, imported.keys, Goal(imported.metrics), TaskLayout())
    # No clock has counted them.
    table = table.drop(columns=["learned", "cost"])
    about = {
        "source": imported.source,
        "metric": imported.metric,
        "direction": imported.direction,
        **({"metrics": imported.metrics} if imported.further else {}),
        "trials": len(imported.attempts),
        "failed": imported.num_failed,
        "unfinished_left_out": imported.num_unfinished,
        "keys_left_out": list(imported.left_out),
        **({"constraints_left_out": list(imported.constraints)} if imported.constraints else {}),
    }
    path.mkdir(parents=True, mode=0o700)
    write_atomically(path / "import.json", json.dumps(about, indent=2) + "\n")
    write_trials(path / "trials.csv", table)
