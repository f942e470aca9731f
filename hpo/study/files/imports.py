"""Imports finished trials of other studies, so that a strategy can learn from them."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from hpo.config.documents import read_json, read_yaml
from hpo.config.goals import SCALE
from hpo.errors import ConfigError, HpoError, StudyError
from hpo.files import write_atomically
from hpo.study.files.folder import IMPORT, RUNS, StudyFolder, short_path
from hpo.trials import reported_values
from hpo.trials.goal import Goal, finished
from hpo.trials.space.dimensions import Value, allows, canonical, from_stored
from hpo.trials.space.first_points import given_values, range_text
from hpo.trials.space.reader import leaves, parted
from hpo.trials.space.space import Point, Space
from hpo.trials.table import Row, column_of, csv_text, metric_column, own_columns, point_of, read_rows, says_nothing
from hpo.trials.trial import Outcome, Trial

# The round of imported trials; a study's own first round is 0.
BEFORE = -1


def unnamed(count: int) -> list[str]:
    """Return default names for the `count` unnamed metrics of an Optuna study: `value`, or `value_0`, `value_1`, ..."""
    return ["value"] if count == 1 else [f"value_{place}" for place in range(count)]


@dataclass(frozen=True)
class ImportedTable:
    """A table from which a study imports trials, with the numbers of imported and skipped trials.

    Attributes:
        source: the table's path.
        finished: the number of finished trials in the table; these are the complete and the failed trials.
        outside: the number of finished trials that are not in the study's space.
        shorter: the number of finished trials that are in the space, but do not have the table's largest amount.
        filled: the number of imported trials that got a value from `study.imports_fill`.
        ignored: the hyperparameters that vary among the finished trials, and that the study does not search. If
            the table's folder has neither config.yaml nor import.json, this list is empty, because only these files
            say which columns are hyperparameters.
        has_metrics: whether config.yaml or import.json in the table's folder names the metrics.
    """

    source: str
    finished: int
    outside: int
    shorter: int
    filled: int
    ignored: Sequence[str]
    has_metrics: bool

    @property
    def used(self) -> int:
        """The number of trials that the study imports; several trials of one point all count."""
        return self.finished - self.outside - self.shorter

    def counts(self) -> dict[str, Any]:
        """Return `used` and the attributes except `has_metrics`, by name, as a dict for JSON."""
        names = ("source", "finished", "used", "outside", "shorter", "filled", "ignored")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class Imports:
    """The trials that a study imports.

    Attributes:
        trials: one trial for each different point. If there are n points, the trials have the numbers -n to -1.
        tables: the tables from which the trials come, in the order of `study.imports`.
    """

    trials: Sequence[Trial] = ()
    tables: Sequence[ImportedTable] = ()

    def counts(self) -> list[dict[str, Any]]:
        """Return the dict of `ImportedTable.counts` for each table."""
        return [table.counts() for table in self.tables]


def imported_text(tables: Sequence[Mapping[str, Any]], points: int) -> str:
    """Return a text that says for each table how many trials are imported, and why the other trials are skipped.

    With one table: `3 of 5 finished trials of old.csv are imported, 2 not in this space`.

    Args:
        tables: for each table, a dict as `ImportedTable.counts` returns it.
        points: the number of different points of the imported trials.
    """
    has_repeats = points != sum(counts["used"] for counts in tables)
    if len(tables) == 1:
        return _used_text(tables[0], f" as repeats of {points} points" * has_repeats)
    return "; ".join([*map(_used_text, tables), *[f"the imported trials have {points} different points"] * has_repeats])


def _used_text(counts: Mapping[str, Any], repeats: str = "") -> str:
    remarks = {
        "not in this space": counts["outside"],
        "trained less far": counts["shorter"],
        "completed by study.imports_fill": counts["filled"],
    }
    others = "".join(f", {number} {remark}" for remark, number in remarks.items() if number)
    if names := ", ".join(counts["ignored"]):
        others += f", ignoring {names} (varied in these trials, but not searched by this study)"
    source = f"{counts['finished']} finished trials of {counts['source']}"
    return f"{counts['used']} of {source} are imported{repeats}{others}"


def read_imports(references: Sequence[str], space: Space, goal: Goal, fill: Mapping[str, Any] | None = None) -> Imports:
    """Return the complete and failed trials of other studies; skip trials with a point outside `space`.

    If a table has amounts of training, use only the trials with the table's largest amount. Join all trials of one
    point into one trial, even across studies. The joined trial's scores are the means over the complete trials. If no
    trial of the point is complete, the joined trial has the state `failed`.

    Args:
        references: study names, study folders, or tables with the columns of trials.csv. A table needs a column for
            each metric and limit.
        space: the space of the new study.
        goal: the metrics and limits of the new study.
        fill: values for keys that trials lack, by nested or dotted key.

    Raises:
        ConfigError: a table does not exist, is given twice, has other metrics, or has an invalid score or amount.
        ConfigError: no trial can be used.
        ConfigError: `fill` has the key of the scale, a key that every trial has, or a value outside of the space.
        DocumentError: config.yaml or import.json in a table's folder cannot be read.
        SpaceError: `fill` has a key that is not searched.
        StudyError: a table cannot be read, or lacks columns.
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
        is_shorter = any(table.shorter for table in tables)
        shorter = " and was trained for the largest amount in its table" * is_shorter
        raise ConfigError(
            f"study.imports: none of {counted} is in the study's space{shorter}; import other "
            f"trials, or widen the space"
        )
    if unused := [key for key in values if key not in lacking]:
        raise ConfigError(
            f"study.imports_fill.{unused[0]}: has no effect, because every imported trial has its own value of "
            f"{unused[0]}; remove this key"
        )
    # Negative numbers rank before the study's own trials on ties.
    trials = [
        replace(_join_repeats(trials, goal), number=place - len(by_point))
        for place, trials in enumerate(by_point.values())
    ]
    return Imports(trials, tables)


def _fill_values(fill: Mapping[str, Any], space: Space) -> dict[str, Value]:
    """Return the values of `study.imports_fill`, in the space's types."""
    values: dict[str, Value] = {}
    given = given_values("study.imports_fill", fill, space)
    for dimension in space.dimensions:
        if dimension.key not in given:
            continue
        if dimension.key == SCALE:
            raise ConfigError(
                f"study.imports_fill.{SCALE}: has no effect, because trials without a scale count as scale 1; remove it"
            )
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
    """Return three values: the numbers of imported and skipped trials, the imported trials, and a set of keys.

    The set has the keys of `fill` that at least one trial of the table lacks.
    """
    _refuse_other_metrics(path, goal)
    rows = read_rows(path, ("state", "score"))
    if rows:
        _refuse_missing_columns(path, rows[0], space, fill)
    columns = _columns_of_metrics(path, goal, rows[0] if rows else {})
    numbered = [(f"{path}:{line}", row) for line, row in enumerate(rows, start=2)]
    if SCALE in space.keys and (before := path.with_name("imports.csv")).exists():
        # A study that extends a ladder has imported the trials of the smaller scales.
        # Skip imports without a scale: their trainings may differ from this study's.
        scaled = enumerate(read_rows(before, ("state", "score")), start=2)
        numbered += [(f"{before}:{line}", row) for line, row in scaled if row.get(SCALE)]
    finished = [(where, row) for where, row in numbered if row["state"] in ("complete", "failed")]
    # Only trials with the largest amount can be compared with full trainings.
    longest = max((_amount(where, row) for where, row in numbered if row.get("amount")), default=None)
    trials: list[Trial] = []
    lacking: set[str] = set()
    outside = shorter = filled = 0
    for where, row in finished:
        point = point_of({SCALE: "1", **row}, space, fill)
        missing = {each.key for each in space.dimensions if each.key in fill and says_nothing(row, each)}
        missing &= missing if point is None else point.keys()
        lacking |= missing
        if point is None:
            outside += 1
        # The table imports.csv has no amounts, because each of its trials had its own table's largest amount.
        elif longest is not None and row.get("amount", str(longest)) != str(longest):
            shorter += 1
        else:
            filled += bool(missing)
            trials.append(_trial(point, row, where, goal, columns))
    metrics = metrics_of_table(path)
    source, has_metrics = str(short_path(path)), bool(metrics) and not _are_unnamed(metrics)
    ignored = _ignored(path, [row for _, row in finished], space)
    return ImportedTable(source, len(finished), outside, shorter, filled, ignored, has_metrics), trials, lacking


def _ignored(path: Path, finished: Sequence[Row], space: Space) -> list[str]:
    """Return the hyperparameters that vary among the finished trials, but are not in the space.

    The hyperparameters' names come from config.yaml or import.json in the table's folder.
    """
    import_path = path.with_name(IMPORT)
    known = read_json(import_path, "study.imports").get("keys", []) if import_path.exists() else []
    with suppress(HpoError):
        known = [".".join(keys) for keys, _ in leaves(parted(StudyFolder(path.parent).config().space)[0])]
    others = [key for key in known if key not in space.keys]
    return [key for key in others if len({row.get(column_of(key), row.get(key)) for row in finished}) > 1]


def _refuse_missing_columns(path: Path, row: Row, space: Space, fill: Mapping[str, Value]) -> None:
    """Raise StudyError if an unconditional hyperparameter has neither a column in the table nor a value in `fill`."""
    required = [each.key for each in space.dimensions if not each.when and each.key != SCALE]
    for key in own_columns(required):
        if key not in row and key not in fill:
            raise StudyError(
                f"study.imports: {path} has no column '{key}'; its columns are {', '.join(row)}; if one of these is "
                f"'{key}' under another name, use `hpo import NEW --csv {path} --rename OLD={key}`; if '{key}' had the "
                f"same value in all trials of the table, use 'study.imports_fill={{{key}: VALUE}}'"
            )


def table_path(reference: str) -> Path:
    """Return the path of a table of trials.

    `reference` is a study's name, a study's folder, or the table's path.

    Raises:
        ConfigError: there is no such table.
    """
    for path in (Path(reference), Path(reference) / "trials.csv", RUNS / reference / "trials.csv"):
        if path.is_file():
            return path
    raise ConfigError(
        f"study.imports: must be a study or a table such as trials.csv, given {reference!r}; see `ls {RUNS}`, or "
        f"import trials of another program: `hpo import NAME --help`"
    )


def write_imports(path: Path, trials: Sequence[Trial], keys: Sequence[str], goal: Goal) -> None:
    """Write imported trials as a table that `read_imports` reads."""
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
    theirs, ours = metrics_of_table(path), dict(goal.metrics)
    is_same = theirs == ours or (_are_unnamed(theirs) and list(theirs.values()) == list(ours.values()))
    if theirs and not is_same:
        advice = "; if these are other names of the same metrics, import again with `hpo import ... --rename OLD=NEW`"
        can_rename = path.with_name("import.json").exists() and sorted(theirs.values()) == sorted(ours.values())
        raise ConfigError(
            f"study.imports: {path} has the metrics {_metrics_text(theirs)}, but this study has "
            f"{_metrics_text(ours)}{advice * can_rename}"
        )


def metrics_of_table(path: Path) -> Mapping[str, Any]:
    """Return the direction of each metric of the table at `path`, by name.

    The directions come from config.yaml or import.json in the table's folder. Return {} if both files are missing.
    """
    origin = _origin(path)
    return origin.get("metrics") or ({origin["metric"]: origin.get("direction")} if "metric" in origin else {})


def _are_unnamed(metrics: Mapping[str, Any]) -> bool:
    """Return whether the metrics of a table have the default names (see `unnamed`).

    Such metrics match by position: the first metric of the table is the first metric of the study, and so on.
    """
    return list(metrics) == unnamed(len(metrics))


def _metrics_text(metrics: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}: {direction}" for name, direction in metrics.items())


def _columns_of_metrics(path: Path, goal: Goal, row: Mapping[str, str]) -> dict[str, str]:
    """Return the column of each metric and of each value with a limit. Raise StudyError if a column is missing."""
    theirs = metrics_of_table(path)
    # The column `score` has the table's leading metric, which need not be the leading metric of this study.
    leading = goal.metric if not theirs or _are_unnamed(theirs) else next(iter(theirs))
    columns = {leading: "score"}
    for place, name in enumerate(goal.names):
        if name in columns:
            continue
        their_name = list(theirs)[place] if _are_unnamed(theirs) and place < len(theirs) else name
        matches = [column for column in (f"metric.{their_name}", metric_column(their_name, ())) if column in row]
        if row and not matches:
            raise StudyError(f"study.imports: {path} has no column '{their_name}'; its columns are {', '.join(row)}")
        columns[name] = matches[0] if matches else their_name
    return columns


def _origin(path: Path) -> Mapping[str, Any]:
    """Return the section `study` of a table's config.yaml.

    Without config.yaml, return the content of import.json; without both files, return {}.
    """
    config_path, import_path = path.with_name("config.yaml"), path.with_name("import.json")
    for source, read in ((config_path, read_yaml), (import_path, read_json)):
        if source.exists():
            content = read(source, "study.imports")
            study = content.get("study", content)
            return study if isinstance(study, Mapping) else {}
    return {}


def _trial(point: Point, row: Mapping[str, str], where: str, goal: Goal, columns: Mapping[str, str]) -> Trial:
    trial = Trial(0, BEFORE, point)
    if row["state"] == "failed":
        return replace(trial, state="failed")
    values = {name: _number(row[column], f"{where}: {column}") for name, column in columns.items()}
    return finished(trial, {0: Outcome(values)}, goal)


def _number(text: str, where: str) -> float:
    with suppress(ValueError):
        if (value := reported_values.number(float(text))) is not None:
            return value
    raise ConfigError(
        f"study.imports: {where} must be a finite number up to {reported_values.LARGEST:g}, given {text!r}; correct "
        f"it, or give the row the state 'failed'"
    )


def _amount(where: str, row: Row) -> int:
    try:
        return int(row["amount"])
    except ValueError as error:
        raise ConfigError(
            f"study.imports: {where}: amount must be a whole number, given {row['amount']!r}; correct it, or rename "
            f"this column to 'space.amount' if it is a hyperparameter"
        ) from error


def _join_repeats(repeats: Sequence[Trial], goal: Goal) -> Trial:
    """Return one trial for all trials of a point. Its values are the means over the complete trials.

    If no trial is complete, return the first trial, whose state is `failed`.
    """
    complete = [trial for trial in repeats if trial.state == "complete"]
    if not complete:
        return repeats[0]
    values = [outcome.metrics for trial in complete for outcome in trial.outcomes.values()]
    joined = finished(
        repeats[0], {0: Outcome({name: fmean(each[name] for each in values) for name in values[0]})}, goal
    )
    # With one metric and no limits, the score is enough.
    return replace(joined, outcomes={}) if goal.is_single else joined
