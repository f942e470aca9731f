"""Trials of other libraries, and the folder that stores them for later studies."""

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from hpo.config.directions import known_direction
from hpo.errors import ConfigError, StudyError, nearest
from hpo.files import write_atomically
from hpo.study.files.folder import IMPORT, RUNS
from hpo.trials import reported_values
from hpo.trials.goal import Goal, finished
from hpo.trials.space.space import Point
from hpo.trials.table import trials_table, twice, write_trials
from hpo.trials.trial import Direction, Outcome, TaskLayout, Trial


@dataclass(frozen=True)
class Imported:
    """The content of a study of another library, or of a CSV table.

    Attributes:
        attempts: the finished trials, including failed trials; each trial has one fold.
        metric: the leading metric.
        direction: whether a higher or a lower value of the leading metric is better.
        source: the place from which the study was read, without passwords.
        num_unfinished: the number of unfinished trials, which are left out.
        left_out: the hyperparameters of a Ray experiment that are left out, because some values are lists or mappings.
        further: the directions of all metrics after the leading metric, by name and in order.
        num_pruned: the number of pruned trials, which are left out, because they were not trained as far as complete
            trials.
        constraints: the names of the constraints. Constraints do not become limits, because a limit needs a number
            for each trial, and the import reads only the names of constraints.
    """

    attempts: Sequence[Trial]
    metric: str
    direction: Direction
    source: str
    num_unfinished: int = 0
    left_out: tuple[str, ...] = ()
    further: Mapping[str, Direction] = field(default_factory=dict)
    constraints: tuple[str, ...] = ()
    num_pruned: int = 0

    @property
    def metrics(self) -> dict[str, Direction]:
        """The directions of all metrics by name, the leading metric first."""
        return {self.metric: self.direction, **self.further}

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
    metrics: Mapping[str, Direction],
    scores: Sequence[Any],
    seconds: float,
    error: str | None,
    measured: Mapping[str, float] = MappingProxyType({}),
) -> Trial:
    """Build a `Trial` from the data of a trial that another library ran.

    The trial counts as failed if `error` is given or a score is not valid.

    Args:
        number: the number of the trial.
        point: the hyperparameters of the trial.
        metrics: the directions of the metrics, by name.
        scores: the values of the metrics, in the order of `metrics`.
        seconds: the duration of the training.
        error: why the training failed; None = it did not fail.
        measured: further numbers that the training returned, by name.
    """
    if error is None:
        for metric, score in zip(metrics, scores, strict=True):
            if isinstance(score, bool) or reported_values.number(score) is None:
                error = f"'{metric}' must be a finite number up to {reported_values.LARGEST:g}, given {score!r}"
                break
    scored = {} if error else {metric: float(score) for metric, score in zip(metrics, scores, strict=True)}
    values = {} if error else {**measured, **scored}
    return finished(Trial(number, 0, point), {0: Outcome(values, seconds=seconds, error=error)}, Goal(metrics))


def direction_of(metric: str, given: Direction | None) -> Direction:
    """Return `given`; if None, return the usual direction of the metric, or raise ConfigError if there is none."""
    if (direction := given or known_direction(metric)) is None:
        raise ConfigError(
            f"direction: is missing, and the metric {metric!r} is not a known name; give minimize or maximize"
        )
    return direction


def renamed(imported: Imported, names: Mapping[str, str]) -> Imported:
    """Return the trials with other names of hyperparameters and metrics.

    Args:
        imported: the trials.
        names: the new names, by old name.

    Raises:
        ConfigError: an old name does not exist, or two hyperparameters or metrics would get the same name.
    """
    for old in names:
        if old not in (known := [*imported.keys, *imported.metrics]):
            raise ConfigError(
                f"rename: there is no hyperparameter or metric '{old}'; the names are "
                f"{', '.join(known)}{nearest(old, known)}"
            )
    for kind, old_names in (("hyperparameters", imported.keys), ("metrics", imported.metrics)):
        if (again := twice([names.get(name, name) for name in old_names])) is not None:
            raise ConfigError(f"rename: two {kind} would be called '{again}'; give each its own name")

    def new(by_name: Mapping[str, Any]) -> dict[str, Any]:
        return {names.get(name, name): value for name, value in by_name.items()}

    attempts = [
        replace(
            each,
            point=new(each.point),
            outcomes={task: replace(outcome, metrics=new(outcome.metrics)) for task, outcome in each.outcomes.items()},
        )
        for each in imported.attempts
    ]
    metric = names.get(imported.metric, imported.metric)
    return replace(imported, attempts=attempts, metric=metric, further=new(imported.further))


def import_folder(name: str) -> Path:
    """Return the path of a new folder for imported trials. Raise StudyError if a folder of this name exists."""
    path = RUNS / name
    if path.exists():
        raise StudyError(f"import: {path} already exists; choose another name")
    return path


def write_import(path: Path, imported: Imported) -> None:
    """Write imported trials into a new folder: `trials.csv` as in a study's folder, and `import.json` with the source.

    A new study reads the folder with `study.imports=NAME`.

    Raises:
        StudyError: there is no finished trial.
    """
    if not imported.attempts:
        raise StudyError(
            f"import: {imported.source} has no complete or failed trial (unfinished trials: {imported.num_unfinished}, "
            f"pruned trials: {imported.num_pruned}); import a study with complete trials"
        )
    table = trials_table(imported.attempts, imported.keys, Goal(imported.metrics), TaskLayout())
    # These columns have times of a study's clock, which imported trials do not have.
    table = table.drop(columns=["learned", "cost"])
    about = {
        "source": imported.source,
        "metric": imported.metric,
        "direction": imported.direction,
        **({"metrics": imported.metrics} if imported.further else {}),
        "trials": len(imported.attempts),
        "failed": imported.num_failed,
        "unfinished_left_out": imported.num_unfinished,
        "pruned_left_out": imported.num_pruned,
        "keys": list(imported.keys),
        "keys_left_out": list(imported.left_out),
        **({"constraints_left_out": list(imported.constraints)} if imported.constraints else {}),
    }
    path.parent.mkdir(exist_ok=True, mode=0o700)
    # Write under another name first, so that a killed process leaves no incomplete import.
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}-") as aside:
        write_atomically(Path(aside, IMPORT), json.dumps(about, indent=2) + "\n")
        write_trials(Path(aside, "trials.csv"), table)
        Path(aside).rename(path)
