"""Finished trials of other studies, from which a strategy learns."""

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
from hpo.trials.space.dimensions import Value, allows, canonical, from_stored
from hpo.trials.space.first_points import given_values, range_text
from hpo.trials.space.space import Point, Space
from hpo.trials.table import Row, csv_text, metric_column, own_columns, point_of, read_rows, says_nothing
from hpo.trials.trial import Outcome, Trial

# The round of imported trials, before a study's own first round.
BEFORE = -1


def unnamed(count: int) -> list[str]:
    """Return what the metrics of a study without names for them are called."""
    return ["value"] if count == 1 else [f"value_{place}" for place in range(count)]


@dataclass(frozen=True)
class ImportedTable:
    """How many finished trials of a table a study takes over.

    Attributes:
        source: the table's path.
        finished: how many finished trials the table has.
        outside: how many of those are not in the study's space.
        shorter: how many of those in the space were trained less far than the longest.
        filled: how many of those used have a value of `study.imports_fill`.
        has_metrics: whether a file beside the table says for which metrics it was made.
    """

    source: str
    finished: int
    outside: int
    shorter: int
    filled: int
    has_metrics: bool

    @property
    def used(self) -> int:
        """How many of the table's trials the study's trials stand for: those of one point are its repeats."""
        return self.finished - self.outside - self.shorter

    def counts(self) -> dict[str, Any]:
        """Return the table and its numbers, JSON-able."""
        return {
            **{"source": self.source, "finished": self.finished, "used": self.used},
            **{"outside": self.outside, "shorter": self.shorter, "filled": self.filled},
        }


@dataclass(frozen=True)
class Imports:
    """What a study takes over of the finished trials in tables.

    Attributes:
        trials: one for each point, numbered from -n to -1.
        tables: those that they come from, in the order in which they are given.
    """

    trials: Sequence[Trial] = ()
    tables: Sequence[ImportedTable] = ()

    def counts(self) -> list[dict[str, Any]]:
        """Return the numbers of each table, JSON-able."""
        return [table.counts() for table in self.tables]


def imported_text(tables: Sequence[Mapping[str, Any]], points: int) -> str:
    """Return how many of how many trials are used, and why others are not, such as `3 of 5 finished trials of ...`.

    `tables` are `Imports.counts`, `points` is at how many points the trials are.
    """
    has_repeats = points != sum(counts["used"] for counts in tables)
    if len(tables) == 1:
        return _used_text(tables[0], f" as repeats of {points} points" * has_repeats)
    return "; ".join([*map(_used_text, tables), *[f"together they are repeats of {points} points"] * has_repeats])


def _used_text(counts: Mapping[str, Any], repeats: str = "") -> str:
    apart = {
        "not in this space": counts["outside"],
        "trained less far": counts["shorter"],
        "completed by study.imports_fill": counts["filled"],
    }
    others = "".join(f", {number} {why}" for why, number in apart.items() if number)
    return f"{counts['used']} of {counts['finished']} finished trials of {counts['source']} are used{repeats}{others}"


def read_imports(references: Sequence[str], space: Space, goal: Goal, fill: Mapping[str, Any] | None = None) -> Imports:
    """Return the finished trials of other studies whose points are in this space.

    Each reference is a study's name, its folder, or a table with the columns of trials.csv. With several metrics or
    limits there is a column for each. Trials of one point are repeats of it, whichever study they are of: their mean
    counts, of those that are complete. `fill` has by key (nested or dotted) the value of trials that do not say it.
    ConfigError where there is no such table, it was made for another metric, no trial fits, or nothing lacks a key of
    `fill`; StudyError where a table lacks columns.
    """
    values = _fill_values(fill or {}, space)
    tables: list[ImportedTable] = []
    by_point = defaultdict[str, list[Trial]](list)
    lacking: set[str] = set()
    for path in _table_paths(references):
        table, trials, lacked = _read_table(path, space, goal, values)
        tables.append(table)
        lacking |= lacked
        for trial in trials:
            by_point[trial.key].append(trial)
    if not by_point:
        counted = " and ".join(f"the {table.finished} trials in {table.source}" for table in tables)
        raise ConfigError(f"study.imports: none of {counted} is in this space")
    if needless := [key for key in values if key not in lacking]:
        raise ConfigError(
            f"study.imports_fill.{needless[0]}: has no effect: every imported trial has its own value; leave it out"
        )
    # From -n to -1: on ties they rank before the study's own trials, in their own order.
    trials = [
        replace(_joined(trials, goal), number=place - len(by_point)) for place, trials in enumerate(by_point.values())
    ]
    return Imports(trials, tables)


def _fill_values(fill: Mapping[str, Any], space: Space) -> dict[str, Value]:
    """Return the values of `study.imports_fill` as the space has them; ConfigError for one that it has not."""
    values: dict[str, Value] = {}
    given = given_values("study.imports_fill", fill, space)
    for dimension in space.dimensions:
        if dimension.key not in given:
            continue
        if dimension.key == SCALE:
            raise ConfigError(f"study.imports_fill.{SCALE}: trials of a study without scales are those of scale 1")
        value = from_stored(dimension, given[dimension.key])
        if not allows(dimension, value):
            raise ConfigError(
                f"study.imports_fill.{dimension.key}: must be in its range ({range_text(dimension)}), given {value!r}"
            )
        values[dimension.key] = canonical(dimension, value)
    return values


def _table_paths(references: Sequence[str]) -> list[Path]:
    paths: dict[Path, str] = {}
    for reference in references:
        path = table_path(reference)
        if (before := paths.get(path.resolve())) is not None:
            raise ConfigError(f"study.imports: {before!r} and {reference!r} are the same table; give one of them")
        paths[path.resolve()] = reference
    return [table_path(reference) for reference in references]


def _read_table(
    path: Path, space: Space, goal: Goal, fill: Mapping[str, Value]
) -> tuple[ImportedTable, list[Trial], set[str]]:
    """Return a table's numbers, those of its trials that are used, and which keys of `fill` some of them lack."""
    _refuse_other_metrics(path, goal)
    rows = read_rows(path, ("state", "score"))
    if rows:
        _refuse_missing_columns(path, rows[0], space, fill)
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
    trials: list[Trial] = []
    lacking: set[str] = set()
    outside = shorter = filled = 0
    for where, row in finished:
        point = point_of({SCALE: "1", **row}, space, fill)
        unsaid = {each.key for each in space.dimensions if each.key in fill and says_nothing(row, each)}
        unsaid &= unsaid if point is None else point.keys()
        lacking |= unsaid
        if point is None:
            outside += 1
        elif longest is not None and row.get("amount") != str(longest):
            shorter += 1
        else:
            filled += bool(unsaid)
            trials.append(_trial(point, row, where, goal, columns))
    source, has_metrics = str(short_path(path)), bool(_metrics_of(path))
    return ImportedTable(source, len(finished), outside, shorter, filled, has_metrics), trials, lacking


def _refuse_missing_columns(path: Path, row: Row, space: Space, fill: Mapping[str, Value]) -> None:
    """Raise StudyError where a table has no column for a hyperparameter without a condition, scales aside."""
    always = [each.key for each in space.dimensions if not each.when and each.key != SCALE]
    for key in own_columns(always):
        if key not in row and key not in fill:
            raise StudyError(
                f"study.imports: {path} has no column '{key}'; it has {', '.join(row)}; if its trials had one value "
                f"of it, give that: 'study.imports_fill={{{key}: VALUE}}'"
            )


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
