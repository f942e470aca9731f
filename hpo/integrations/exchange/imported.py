"""Trials of other libraries, and the folder that keeps them for later studies."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hpo.config.files import write_atomically
from hpo.engine.space.space import Point
from hpo.engine.trials.table import trials_table, write_trials
from hpo.engine.trials.trial import Direction, Outcome, TaskLayout, Trial, finished
from hpo.errors import ConfigError, StudyError, nearest
from hpo.study.files.folder import RUNS


@dataclass(frozen=True)
class Attempt:
    """One finished trial of another library.

    Attributes:
        point: hyperparameters by dotted key.
        score: None when the trial failed.
        error: why it failed, or None.
        seconds: wall time, 0 where it is not known.
    """

    point: Point
    score: float | None
    error: str | None = None
    seconds: float = 0.0


@dataclass(frozen=True)
class Imported:
    """The content of another study.

    Attributes:
        attempts: its finished trials, failures included, in their order.
        metric: the score's name there.
        direction: which way was better; None where it is not known.
        source: where it was read, without passwords.
        num_unfinished: number of unfinished trials, which were left out.
        left_out: keys that were left out because their values are not single ones, such as lists.
    """

    attempts: Sequence[Attempt]
    metric: str
    direction: Direction | None
    source: str
    num_unfinished: int = 0
    left_out: tuple[str, ...] = ()

    @property
    def keys(self) -> tuple[str, ...]:
        """The hyperparameters of all trials, in the order of first appearance."""
        return tuple(dict.fromkeys(key for attempt in self.attempts for key in attempt.point))

    @property
    def num_failed(self) -> int:
        """The number of failed trials."""
        return sum(attempt.score is None for attempt in self.attempts)


def attempt_from(point: Point, score: Any, what: str, seconds: float = 0.0) -> Attempt:
    """Return a complete trial with its score; a failed one where that is not a finite number."""
    number = float(score) if isinstance(score, int | float) and not isinstance(score, bool) else None
    if number is None or not math.isfinite(number):
        return Attempt(point, None, f"{what} was {score!r}, which is not a finite number", seconds)
    return Attempt(point, number, None, seconds)


def renamed(imported: Imported, names: Mapping[str, str]) -> Imported:
    """Return the trials with hyperparameters renamed (old key: new key) to those of the study that learns from them.

    Raises:
        ConfigError: an old key does not exist, or two would get the same new one.
    """
    for old in names:
        if old not in imported.keys:
            hint = nearest(old, imported.keys)
            raise ConfigError(f"rename: there is no hyperparameter '{old}'; there are {', '.join(imported.keys)}{hint}")
    new = [names.get(key, key) for key in imported.keys]
    twice = next((key for key in new if new.count(key) > 1), None)
    if twice is not None:
        raise ConfigError(f"rename: two hyperparameters would be called '{twice}'; give each its own name")
    attempts = [
        replace(attempt, point={names.get(key, key): value for key, value in attempt.point.items()})
        for attempt in imported.attempts
    ]
    return replace(imported, attempts=attempts)


def import_folder(name: str) -> Path:
    """Return the folder for trials of this name; StudyError where it exists."""
    path = RUNS / name
    if path.exists():
        raise StudyError(f"import: {path} already exists; choose another name")
    return path


def write_import(path: Path, imported: Imported) -> None:
    """Write `trials.csv`, as a study has it, and `import.json` about its source, into a new folder.

    The folder is not a study: what was trained is not known, so nothing can be resumed or tested. It is for
    `study.imports=NAME` of a new study, which learns from these trials.

    Raises:
        StudyError: there is no finished trial.
    """
    if not imported.attempts:
        raise StudyError(f"import: {imported.source} has no finished trial ({imported.num_unfinished} unfinished)")
    table = trials_table(_trials(imported), imported.keys, imported.metric, TaskLayout())
    about = {
        "source": imported.source,
        "metric": imported.metric,
        "direction": imported.direction,
        "trials": len(imported.attempts),
        "failed": imported.num_failed,
        "unfinished_left_out": imported.num_unfinished,
        "keys_left_out": list(imported.left_out),
    }
    path.mkdir(parents=True, mode=0o700)
    write_atomically(path / "import.json", json.dumps(about, indent=2) + "\n")
    write_trials(path / "trials.csv", table)


def _trials(imported: Imported) -> list[Trial]:
    """Return the attempts as trials of one fold."""
    trials = []
    for number, attempt in enumerate(imported.attempts):
        metrics: Mapping[str, float] = {} if attempt.score is None else {imported.metric: attempt.score}
        error = (attempt.error or "failed") if attempt.score is None else None
        outcome = Outcome(metrics, seconds=attempt.seconds, error=error)
        trial = Trial(number, 0, attempt.point)
        trials.append(finished(trial, {0: outcome}, imported.metric, imported.direction or "minimize"))
    return trials
