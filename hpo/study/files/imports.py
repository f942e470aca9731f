"""Finished trials of another study, from which a strategy learns."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from hpo.config.documents import read_json, read_yaml
from hpo.config.goals import SCALE
from hpo.errors import ConfigError, StudyError
from hpo.files import write_atomically
from hpo.study.files.folder import RUNS, short_path
from hpo.trials.goal import Goal, finished
from hpo.trials.space.space import Point, Space, point_key
from hpo.trials.table import csv_text, metric_column, own_columns, point_of, read_rows
from hpo.trials.trial import Outcome, Trial

# The round of imported trials, before a study's own first round.
BEFORE = -1


def unnamed(count: int) -> list[str]:
    """Return what the metrics of a study without names for them are called."""
    return ["value"] if count == 1 else [f"value_{place}" for place in range(count)]


@dataclass(frozen=True)
class Imports:
    """What a study takes over of the finished trials in a table.

    Attributes:
        trials: one for each point, numbered from -n to -1.
        source: the table's path.
        finished: how many finished trials the table has.
        outside: how many of those are not in the study's space.
        shorter: how many of those in the space were trained less far than the longest.
        has_metrics: whether a file beside the table says for which metrics it was made.
    """

    trials: Sequence[Trial] = ()
    source: str = ""
    finished: int = 0
    outside: int = 0
    shorter: int = 0
    has_metrics: bool = True

    @property
    def used(self) -> int:
        """How many of the table's trials the study's trials stand for: those of one point are its repeats."""
        return self.finished - self.outside - self.shorter

    def counts(self) -> dict[str, Any]:
        """Return all but the trials, JSON-able."""
        return {
            **{"source": self.source, "finished": self.finished, "used": self.used},
            **{"outside": self.outside, "shorter": self.shorter},
        }


def imported_text(counts: Mapping[str, Any], points: int) -> str:
    """Return how many of how many trials are used, and why others are not, such as `3 of 5 finished trials of ...`.

    `points` is at how many points they are.
    """
    left = {"not in this space": counts["outside"], "trained less far": counts["shorter"]}
    others = "".join(f", {number} {why}" for why, number in left.items() if number)
    repeats = "" if points == counts["used"] else f" as repeats of {points} points"
    return f"{counts['used']} of {counts['finished']} finished trials of {counts['source']} are used{repeats}{others}"


def read_imports(reference: str, space: Space, goal: Goal) -> Imports:
    """Return the finished trials of another study whose points are in this space.

    `reference` is its name, its folder, or a table with the columns of trials.csv. With several metrics or limits there
    is a column for each. Trials of one point are repeats of it: their mean counts, of those that are complete.
    ConfigError where there is no such table, it was made for another metric, or no trial fits; StudyError where it
    lacks columns.
    """
    path = table_path(reference)
    _refuse_other_metrics(path, goal)
    # A table may lack a dimension with a condition, and of a study without scales it lacks the scale.
    always = [dimension.key for dimension in space.dimensions if not dimension.when and dimension.key != SCALE]
    rows = read_rows(path, ("state", "score", *own_columns(always)))
    columns = _columns_of_metrics(path, goal, rows[0] if rows else {})
    numbered = [(f"{path}:{line}", row) for line, row in enumerate(rows, start=2)]
    if SCALE in space.keys and (before := path.with_name("imports.csv")).exists():
        # Of a study that goes on from another one's scales, those have the smaller ones.
        # One without scales may have imported what was trained otherwise than its own.
        scaled = enumerate(read_rows(before, ("state", "score")), start=2)
        numbered += [(f"{before}:{line}", row) for line, row in scaled if row.get(SCALE)]
    finished = [(where, row) for where, row in numbered if row["state"] in ("complete", "failed")]
    # Of trials by amounts only those that were trained longest compare with whole trainings.
    longest = max((int(row["amount"]) for _, row in numbered if row.get("amount")), default=None)
    by_point = defaultdict[str, list[Trial]](list)
    outside = shorter = 0
    for where, row in finished:
        point = point_of({SCALE: "1", **row}, space)
        if point is None:
            outside += 1
        elif longest is not None and row.get("amount") != str(longest):
            shorter += 1
        else:
            by_point[point_key(point)].append(_trial(point, row, where, goal, columns))
    if not by_point:
        raise ConfigError(f"study.imports: none of the {len(numbered)} trials in {path} is in this space")
    # From -n to -1: on ties they rank before the study's own trials, in their own order.
    trials = [
        replace(_joined(trials, goal), number=place - len(by_point)) for place, trials in enumerate(by_point.values())
    ]
    return Imports(trials, str(short_path(path)), len(finished), outside, shorter, bool(_metrics_of(path)))


def table_path(reference: str) -> Path:
    """Return the table of trials of another study, given by its name, its folder or that table; see `read_imports`."""
    for path in (Path(reference), Path(reference) / "trials.csv", RUNS / reference / "trials.csv"):
        if path.is_file():
            return path
    raise ConfigError(
        f"study.imports: there is no study and no trials.csv at {reference!r}; see `ls {RUNS}`, or take over what "
        f"another program has: `hpo import NAME --help`"
    )


def write_imports(path: Path, trials: Sequence[Trial], keys: Sequence[str], goal: Goal) -> None:
    """Write imported trials as a table for `read_imports`."""
    others = [metric_column(name, keys) for name in goal.names[1:]]
    rows = [
        [
            *(trial.state, trial.score),
            *(trial.mean(name) if trial.state == "complete" else None for name in goal.names[1:]),
            *(trial.point.get(key) for key in keys),
        ]
        for trial in trials
    ]
    write_atomically(path, csv_text([["state", "score", *others, *keys], *rows]))


def _refuse_other_metrics(path: Path, goal: Goal) -> None:
    there, ours = _metrics_of(path), dict(goal.metrics)
    is_same = there == ours or (_are_unnamed(there) and list(there.values()) == list(ours.values()))
    if there and not is_same:
        again = "; if it is the same under another name, take it over again by `hpo import ... --rename OLD=NEW`"
        is_renamed = path.with_name("import.json").exists() and sorted(there.values()) == sorted(ours.values())
        raise ConfigError(
            f"study.imports: {path} was made for {_text(there)}, this study has {_text(ours)}{again * is_renamed}"
        )


def _metrics_of(path: Path) -> Mapping[str, Any]:
    """Return the directions by metric that the files in a table's folder say; empty where there is none."""
    origin = _origin(path)
    return origin.get("metrics") or ({origin["metric"]: origin.get("direction")} if "metric" in origin else {})


def _are_unnamed(metrics: Mapping[str, Any]) -> bool:
    """Return whether the metrics of an Optuna study have no names: they are those of this study by their order."""
    return list(metrics) == unnamed(len(metrics))


def _text(metrics: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}: {direction}" for name, direction in metrics.items())


def _columns_of_metrics(path: Path, goal: Goal, row: Mapping[str, str]) -> dict[str, str]:
    """Return the column of each metric, and of what has a limit; StudyError where the table lacks one."""
    there = _metrics_of(path)
    # Of the same metrics in another order, another one leads.
    leading = goal.metric if not there or _are_unnamed(there) else next(iter(there))
    columns = {leading: "score"}
    for place, name in enumerate(goal.names):
        if name in columns:
            continue
        called = list(there)[place] if _are_unnamed(there) and place < len(there) else name
        found = [column for column in (f"metric.{called}", metric_column(called, ())) if column in row]
        if row and not found:
            raise StudyError(f"study.imports: {path} has no column '{called}'; it has {', '.join(row)}")
        columns[name] = found[0] if found else called
    return columns


def _origin(path: Path) -> Mapping[str, Any]:
    """Return what the files in a table's folder say of its study: a frozen configuration, or `hpo import`'s file."""
    config_path, import_path = path.with_name("config.yaml"), path.with_name("import.json")
    for beside, read in ((config_path, read_yaml), (import_path, read_json)):
        if beside.exists():
            content = read(beside, "study.imports")
            study = content.get("study", content)
            return study if isinstance(study, Mapping) else {}
    return {}


def _trial(point: Point, row: Mapping[str, str], where: str, goal: Goal, columns: Mapping[str, str]) -> Trial:
    trial = Trial(0, BEFORE, point)
    if row["state"] == "failed":
        return replace(trial, state="failed")
    values: dict[str, float] = {}
    for name, column in columns.items():
        try:
            values[name] = float(row[column])
        except ValueError as error:
            raise ConfigError(f"study.imports: {where}: {column} must be a number, given {row[column]!r}") from error
    return finished(trial, {0: Outcome(values)}, goal)


def _joined(repeats: Sequence[Trial], goal: Goal) -> Trial:
    """Return trials of one point as one, which failed where none of them is complete."""
    complete = [trial for trial in repeats if trial.state == "complete"]
    if not complete:
        return repeats[0]
    values = [outcome.metrics for trial in complete for outcome in trial.outcomes.values()]
    joined = finished(
        repeats[0], {0: Outcome({name: fmean(each[name] for each in values) for name in values[0]})}, goal
    )
    # One metric and no limits: the score says it all.
    return replace(joined, outcomes={}) if goal.is_single else joined
