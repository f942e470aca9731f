"""Trials that were made elsewhere, and the folder that keeps them for later studies."""

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
from hpo.study.folder import RUNS


@dataclass(frozen=True)
class Attempt:
    """One finished trial of another library.

    Attributes:
        point: hyperparameters by dotted key.
        score: the number that was searched for; None when the trial failed.
        error: why it failed; None when it did not.
        seconds: wall time, 0 where it is not known.
    """

    point: Point
    score: float | None
    error: str | None = None
    seconds: float = 0.0


@dataclass(frozen=True)
class Imported:
    """What was read of another study.

    Attributes:
        attempts: its finished trials, failures included, in their order.
        metric: what the score was called there.
        direction: which way was better; None where nothing says so.
        source: where it was read, without passwords.
        num_unfinished: trials that were left out because they had not finished.
        left_out: keys that were left out because no single value stands there, such as lists.
    """

    attempts: Sequence[Attempt]
    metric: str
    direction: Direction | None
    source: str
    num_unfinished: int = 0
    left_out: tuple[str, ...] = ()

    @property
    def keys(self) -> tuple[str, ...]:
        """The hyperparameters of all trials, in the order in which they appear."""
        return tuple(dict.fromkeys(key for attempt in self.attempts for key in attempt.point))

    @property
    def num_failed(self) -> int:
        """How many of the trials failed."""
        return sum(attempt.score is None for attempt in self.attempts)


def attempt_from(point: Point, score: Any, what: str, seconds: float = 0.0) -> Attempt:
    """Return a complete trial with its score; a failed one where that is no finite number."""
    number = float(score) if isinstance(score, int | float) and not isinstance(score, bool) else None
    if number is None or not math.isfinite(number):
        return Attempt(point, None, f"{what} was {score!r}, which is no finite number", seconds)
    return Attempt(point, number, None, seconds)


def renamed(imported: Imported, names: Mapping[str, str]) -> Imported:
    """Return the trials with hyperparameters of other names: the keys of the study that is to learn from them.

    Args:
        imported: what was read.
        names: the new key for each old one.

    Raises:
        ConfigError: when there is no such old key, or two would have the same new one.
    """
    for old in names:
        if old not in imported.keys:
            hint = nearest(old, imported.keys)
            raise ConfigError(
                f"--rename: there is no hyperparameter '{old}'; there are {', '.join(imported.keys)}{hint}"
            )
    new = [names.get(key, key) for key in imported.keys]
    twice = next((key for key in new if new.count(key) > 1), None)
    if twice is not None:
        raise ConfigError(f"--rename: two hyperparameters would be called '{twice}'; give each a name of its own")
    attempts = [
        replace(attempt, point={names.get(key, key): value for key, value in attempt.point.items()})
        for attempt in imported.attempts
    ]
    return replace(imported, attempts=attempts)


def import_folder(name: str) -> Path:
    """Return where the trials of this name will lie.

    Raises:
        StudyError: when there is something already.
    """
    path = RUNS / name
    if path.exists():
        raise StudyError(f"import: {path} is there already; choose another name, or remove it")
    return path


def write_import(path: Path, imported: Imported) -> None:
    """Write `trials.csv`, as a study has it, and `import.json` about its source, into a new folder.

    The folder is no study: nothing says what was trained, so nothing can be resumed or tested. What it is for is
    `study.imports=NAME` of a new study, which learns from these trials.

    Raises:
        StudyError: when nothing has finished there.
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
