"""Reads a study from its folder, from a published copy of it, or from its report alone."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from hpo.config.documents import read_json, yaml_text
from hpo.config.goals import SCALE
from hpo.config.sections import StudySection
from hpo.config.study_config import StudyConfig, explain
from hpo.errors import StudyError
from hpo.objectives.outside import OUTSIDE
from hpo.study.basis.changes import AllowedChange
from hpo.study.basis.environment import changed_environment, describe_environment
from hpo.study.basis.source_code import Code, changed_names
from hpo.study.files.folder import StudyFolder, inner, short_path
from hpo.study.opening import code_of
from hpo.study.preparing.preparation import at_places, prepare_study
from hpo.study.results.after_search import fresh_indices
from hpo.study.results.choosing import choose_best, why_none
from hpo.study.study import PreparedStudy, is_outside
from hpo.study.upgrade import FORMAT, upgraded
from hpo.trials.goal import Goal, finished, goal_of
from hpo.trials.history import History
from hpo.trials.reported_values import number
from hpo.trials.table import Row, column_of, csv_text, metric_columns, own_columns, read_rows
from hpo.trials.trial import Outcome, Trial

# Scores can be bit-identical only if these parts of the environment are the same.
_DECISIVE = ("python", "platform", "processor", "packages")

# The accepted relative difference where scores cannot be bit-identical: other versions, processors and thread counts
# change the order of additions, and a training amplifies the last digits. 2 % is about a tenth of the effect of another
# seed in benchmarks/models/README.md.
_TOLERANCE = 0.02

_ALLOWED = TypeAdapter(list[AllowedChange])
_CODE = TypeAdapter(Code)


@dataclass(frozen=True)
class StudyFiles:
    """The files of a study, or of a published copy; reading these files runs no code of the study.

    Attributes:
        folder, config: the folder, and its frozen configuration.
        report: the content of report.json; {} if the file is missing.
        allowed: the changes of the study's basis that users allowed when they continued the study.
        changes: a line for each difference from the recorded environment, and for each allowed change.
        is_same_machine: whether scores can be bit-identical here. `read_files` compares the environment and checks the
            allowed changes. `read_recorded` sets it to False if the data or a library's version has changed, too.
    """

    folder: StudyFolder
    config: StudyConfig
    report: Mapping[str, Any]
    allowed: Sequence[AllowedChange]
    changes: Sequence[str]
    is_same_machine: bool

    @property
    def tolerance(self) -> float:
        """The largest relative difference between two scores that count as equal."""
        return 0.0 if self.is_same_machine else _TOLERANCE


@dataclass(frozen=True)
class Recorded:
    """A study, read from its files, whose trials can be trained again on the current data.

    Attributes:
        files: the study's files. In addition to the lines that `StudyFiles` describes, `files.changes` has a line for
            each change of the data or the code.
        study: the prepared study.
        rows: all rows of trials.csv.
        winner: the winner's row; None if the study has no winner. See `recorded_winner`.
        is_same_study: whether data and code are unchanged since the report was written, and the study was never
            continued with a changed basis.
    """

    files: StudyFiles
    study: PreparedStudy
    rows: Sequence[Row]
    winner: Row | None
    is_same_study: bool

    def trials(self, which: str) -> Sequence[Row]:
        """Return the rows of the complete trials that `which` selects: `best`, `all` or a trial's number.

        Raises:
            StudyError: no trial is complete, there is no such complete trial, or there is no winner.
        """
        complete = [row for row in self.rows if row["state"] == "complete"]
        if not complete:
            raise StudyError("trials.csv: no trial is complete, so there is nothing to reproduce")
        if which == "all":
            return complete
        numbers = ", ".join(row["number"] for row in complete)
        if which == "best":
            why = inner(self.files.report, "winner").get("missing")
            if why is None and self.winner is not None:
                return [self.winner]
            goal = self.study.goal
            why = why or f"there is no winner: {why_none(History(_as_trials(complete, goal)), goal)}"
            raise StudyError(f"trial: {why}; give the number of a complete trial ({numbers}) or 'all'")
        if same := [row for row in complete if row["number"] == which]:
            return same
        raise StudyError(f"trial: must be 'best', 'all' or the number of a complete trial ({numbers}), given {which!r}")

    def fresh_scores(self, number: int) -> tuple[list[float], dict[str, float]] | None:
        """Return a finalist's scores on fresh seeds and the mean of each metric over these seeds, from the report.

        Return None if the trial is no finalist, or has no score on fresh seeds. Raise StudyError if the number of
        scores is wrong, or if fresh seeds chose the winner but the winner's scores are missing.
        """
        finalists, winner = self.files.report.get("finalists"), inner(self.files.report, "winner")
        listed = [entry for entry in finalists if isinstance(entry, Mapping)] if isinstance(finalists, list) else []
        entry = next((entry for entry in listed if entry.get("number") == number), {})
        is_chosen = winner.get("number") == number and "fresh" in winner
        if entry.get("fresh_score") is None and not is_chosen:
            return None
        values = entry.get("fresh_values")
        num_tasks = len(fresh_indices(self.study.config.study, self.study.layout))
        if not isinstance(values, list) or len(values) != num_tasks:
            raise StudyError(
                f"report.json: finalists: trial {number} must have {num_tasks} fresh_values, one per fold and fresh "
                f"seed, given {values!r:.60}; restore the original report"
            )
        means = inner(entry, "fresh_scores")
        known = {name: _finite(means[name]) for name in self.study.goal.names if name in means}
        return list(map(_finite, values)), known


def _finite(value: Any) -> float:
    """Return a number of the report; StudyError for any other value."""
    if (finite := number(value)) is None:
        raise StudyError(f"report.json: finalists: must have finite numbers, given {value!r:.40}; restore the file")
    return finite


def read_files(folder: StudyFolder) -> StudyFiles:
    """Read the files of a study, or of a published copy.

    Raises:
        HpoError: a file is missing, unreadable or changed, or another program trained the study's trials.
    """
    config, report = folder.config(), folder.report()
    if is_outside(config):
        raise StudyError(
            f"{folder}: another program trained the study's trials (objective={OUTSIDE}); reproduce them with that "
            f"program"
        )
    _refuse_tampered(folder, report)
    environment = folder.read_json(folder.environment_path.name)
    changes, allowed = list(changed_environment(environment, describe_environment())), _read_allowed_changes(report)
    is_same_machine = not any(change.startswith(_DECISIVE) for change in changes)
    for change in allowed:
        changes += [f"allowed after {change.trials} trials: {line}" for line in change.changes]
        is_same_machine &= all(line.startswith(("config:", "toolkit:")) for line in change.changes)
    return StudyFiles(folder, config, report, allowed, changes, is_same_machine)


def read_recorded(files: StudyFiles, elsewhere: Mapping[str, str] | None = None) -> Recorded:
    """Import the objective that is named in `files`, read the data, and return the recorded study.

    Args:
        elsewhere: new paths of data sources, by their keys in the configuration.

    Raises:
        HpoError: a key of `elsewhere` is not a data source, the study cannot be prepared, or trials.csv or the
            report cannot be read.
    """
    folder, config, report = files.folder, files.config, files.report
    config = at_places(config, elsewhere or {})
    alone = config.with_study(imports=None, imports_fill=None)
    study = prepare_study(alone, folder.pickled_function(config), is_again=True)
    names = [study.layout.name(index) for index in range(study.layout.size)]
    rows = read_rows(
        short_path(folder.trials_path), ("number", "state", "score", *own_columns(study.space.keys), *names)
    )
    data, code = list(_changed_data(report, study)), list(changed_code(report, study))
    missing = [] if report else [f"{folder}/report.json: is missing, so changed files cannot be detected"]
    # Other libraries justify a tolerance, because they round differently. Other code does not.
    is_same_machine = not data and not any(change.startswith(_DECISIVE) for change in code)
    has_other_code = any(change.startswith(("code", "the function")) for change in code)
    now = replace(
        files,
        changes=[*missing, *data, *code, *files.changes],
        is_same_machine=files.is_same_machine and is_same_machine,
    )
    winner = recorded_winner(rows, report, config.study)
    return Recorded(now, study, rows, winner, is_same_study=not (data or has_other_code or files.allowed))


def recorded_winner(rows: Iterable[Row], report: Mapping[str, Any], study: StudySection) -> Row | None:
    """Return the row of the winner that the report names; if the report names no winner, return the best trial's row.

    With several metrics, `study.choose` picks the best trial from the Pareto front.

    Args:
        rows: all rows of trials.csv.
        report: the content of report.json; may be empty.
        study: the section `study` of the configuration.

    Returns:
        The row; None if no trial is complete, or if no complete trial keeps the limits. In a study with scales, only
        the trials at the largest scale count.
    """
    complete = [row for row in rows if row["state"] == "complete" and is_at_target(row, study)]
    winner = str(inner(report, "winner").get("number"))
    if same := [row for row in complete if row["number"] == winner]:
        return same[0]
    goal = goal_of(study)
    chosen = choose_best(study, goal, _as_trials(complete, goal), at_target=False)
    return None if chosen is None else next(row for row in complete if int(row["number"]) == chosen.number)


def is_at_target(row: Row, study: StudySection) -> bool:
    """Return whether a row of trials.csv belongs to a trial at the largest scale; True in a study without scales."""
    return study.scales is None or row.get(SCALE) == str(len(study.scales))


def _as_trials(complete: Iterable[Row], goal: Goal) -> list[Trial]:
    """Return the complete trials in these rows, sorted by number; StudyError if a value or a column is not valid."""
    try:
        return sorted((_as_trial(row, goal) for row in complete), key=lambda trial: trial.number)
    except ValueError as error:
        raise StudyError(f"trials.csv: {error}; restore the file") from error


def _as_trial(row: Row, goal: Goal) -> Trial:
    columns = metric_columns(row, goal)
    if missing := [name for name in goal.names if name not in columns]:
        raise ValueError(f"has no column '{missing[0]}'")
    values = {name: float(row[column]) for name, column in columns.items()}
    trial = Trial(int(row["number"]), 0, {}, amount=amount_of(row))
    return finished(trial, {0: Outcome(metrics=values)}, goal)


def _changed_data(report: Mapping[str, Any], study: PreparedStudy) -> Iterator[str]:
    """Yield a line for each difference between the study's data and the data in the report.

    Compare the splits; if the report has no splits, compare the data files.
    """
    before, parts = inner(report, "data", "split", "parts"), study.plan.parts if study.plan else {}
    for part in {**before, **parts} if before else ():
        old, new = inner(before, part).get("fingerprint"), parts.get(part, {}).get("fingerprint")
        if old != new:
            yield f"data: {part} was {str(old)[:12]}, is {str(new)[:12]}"
    if before:
        return
    listed = inner(report, "data").get("files")
    old_files = [file for file in listed if isinstance(file, Mapping)] if isinstance(listed, list) else []
    nothing: Mapping[str, Any] = {}
    # Compare the files in their order, because a moved file has another path.
    for old, new in zip_longest(old_files, map(vars, study.own.files), fillvalue=nothing):
        if old.get("sha256") != new.get("sha256"):
            name = old.get("path") or new.get("path")
            yield f"data: {name} was {str(old.get('sha256'))[:12]}, is {str(new.get('sha256'))[:12]}"


def changed_code(report: Mapping[str, Any], study: PreparedStudy) -> Iterator[str]:
    """Yield a line for each difference between the study's current code and the code in the report.

    Compare the user's code, the toolkit's files, the toolkit's REVISION numbers, and the library versions (see `Code`).
    Leave out the libraries in the report's `environment`, because `read_files` compares their versions. If `report` is
    empty, yield nothing.

    Raises:
        StudyError: the report's description of the code is malformed.
    """
    if not report:
        return
    now = code_of(study)
    try:
        before = _CODE.validate_python(inner(report, "study").get("code"))
    except ValidationError as error:
        raise StudyError(f"report.json: {explain(error, 'study.code.')}; restore the file") from error
    yield from before.changes_to(now)
    yield from before.edits_to(now)
    compared = {"python", *inner(report, "environment", "packages")}
    lines = changed_names(before.versions, {name: now.versions.get(name) for name in before.versions})
    yield from (f"packages: {line}" for line in lines if line.partition(" ")[0] not in compared)


def _read_allowed_changes(report: Mapping[str, Any]) -> list[AllowedChange]:
    """Return the allowed changes of a report; StudyError if they are malformed."""
    try:
        return _ALLOWED.validate_python(inner(report, "study").get("allowed_changes", []))
    except ValidationError as error:
        raise StudyError(f"report.json: {explain(error, 'study.allowed_changes.')}; restore the file") from error


def amount_of(row: Row) -> int | None:
    """Return the trial's amount from a row of trials.csv; None under a strategy without amounts."""
    return int(row["amount"]) if row.get("amount") else None


def _refuse_tampered(folder: StudyFolder, report: Mapping[str, Any]) -> None:
    """Refuse missing files, and files that differ from their hash in the report."""
    hashes = report.get("files") or {}
    if not isinstance(hashes, Mapping):
        raise StudyError(
            f"{folder}/report.json: 'files' must map names to hashes, given {hashes!r:.60}; restore the file"
        )
    for name, digest in hashes.items():
        path = folder.inside(name)
        if not path.exists() and path.parent != folder.path:
            continue  # The winner's model, which is not published.
        if not path.exists():
            raise StudyError(f"{short_path(path)}: is missing; restore the file, or write it again with `hpo report`")
        if not folder.is_file(name, digest):
            raise StudyError(
                f"{short_path(path)}: has changed since the report was written; restore the file, or, if the study "
                f"has continued since the report, write the report again with `hpo report`"
            )


def unpack_report(path: Path, into: Path, which: str) -> StudyFolder:
    """Make a study's folder from a report alone; the folder's trials.csv has only the winner.

    Raises:
        HpoError: the file is no report, the report has no winner with a score, or `which` is neither `best` nor the
            winner's number.
    """
    report = upgraded("report", read_json(path), str(path))
    winner = report.get("winner")
    if not isinstance(winner, dict) or "config" not in report or "values" not in winner:
        why = winner.get("missing") if isinstance(winner, dict) else None
        reason = why or "it is not a report"
        raise StudyError(f"{path}: has no winner to train again: {reason}; give the study's folder instead")
    if which not in ("best", str(winner.get("number"))):
        raise StudyError(
            f"trial: must be 'best' or {winner.get('number')}, given {which!r}; a report alone has only the winner: "
            f"give the study's folder instead"
        )
    if not winner["values"]:
        raise StudyError(f"{path}: winner.values is empty, so there is no score to compare with; give another report")
    try:
        return _unpack(report, winner, StudyFolder(into))
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise StudyError(
            f"{path}: is not a report of this toolkit ({type(error).__name__}: {error}); give another file"
        ) from error


def _unpack(report: dict[str, Any], winner: dict[str, Any], folder: StudyFolder) -> StudyFolder:
    folder.config_path.write_text(yaml_text(report["config"]), encoding="utf-8")
    # None: a value that the report does not know counts as unchanged.
    environment = {k: None if isinstance(v, dict) and "missing" in v else v for k, v in report["environment"].items()}
    folder.write_json(folder.environment_path, environment | {"format": FORMAT})
    # Drop the hashes, because the folder does not have these files.
    folder.write_json(folder.path / "report.json", report | {"files": {}})
    point = {column_of(dimension["key"]): winner["point"].get(dimension["key"]) for dimension in report["space"]}
    row = {"number": winner["number"], "state": "complete", "score": winner["score"], **point, **winner["values"]}
    row |= {} if winner["amount"] is None else {"amount": winner["amount"]}
    row |= {f"metric.{name}": score["mean"] for name, score in winner.get("scores", {}).items()}
    folder.trials_path.write_text(csv_text([list(row), list(row.values())]), encoding="utf-8")
    return folder
