"""A study as read from its folder, or from a published copy of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hpo.config.keys import flatten
from hpo.config.study_config import StudyConfig
from hpo.engine.trials.table import Row, own_columns, read_rows
from hpo.errors import StudyError
from hpo.study.basis.changes import AllowedChange
from hpo.study.basis.environment import describe_environment
from hpo.study.basis.since_report import changed_code, changed_environment, changed_since, inner
from hpo.study.files.folder import StudyFolder, short_path
from hpo.study.opening import code_of
from hpo.study.preparing.preparation import prepare_study
from hpo.study.study import Study
from hpo.study.winner.recorded_winner import recorded_winner

# Must be equal for bit-identical scores.
_DECISIVE = ("python", "platform", "processor", "packages")

# Accepted relative difference where scores cannot be bit-identical: other versions, processors and numbers of threads
# change the order of additions, and a training amplifies the last digits. 2 % is about a tenth of the effect of another
# seed on the scores in benchmarks/results.md.
TOLERANCE = 0.02


@dataclass(frozen=True)
class StudyFiles:
    """What the files of a study say; nothing of it has been imported or run.

    Attributes:
        folder: the study's, or that of its publication.
        config: the frozen configuration.
        report: what report.json holds; empty without one.
        allowed: the changes with which the study was continued.
        changes: what differs in versions, machine and code from the study's start, one line each, and what was allowed.
        is_same_machine: whether bit-identical scores can be expected. After an allowed change of data or code they
            cannot: an earlier configuration is known, earlier data and code are not.
    """

    folder: StudyFolder
    config: StudyConfig
    report: Mapping[str, Any]
    allowed: Sequence[AllowedChange]
    changes: Sequence[str]
    is_same_machine: bool


@dataclass(frozen=True)
class Recorded:
    """A study as read from its files, ready to be trained again.

    Attributes:
        study: made from its frozen configuration, on the current data.
        rows: of trials.csv.
        changes: what differs from then, one line each; data first, then code, then environment.
        is_same_machine: whether bit-identical scores can be expected.
        winner: the winner's row, as the report names it, or else the best; None where no trial is complete.
        allowed: the changes with which the study was continued.
        report: what report.json holds; empty without one.
        is_same_study: whether its data and code are known to be those that its report was written with.
        own_folder: the study's own folder, where it was made, in which a finding is noted; None = that of a copy.
    """

    study: Study
    rows: Sequence[Row]
    changes: Sequence[str]
    is_same_machine: bool
    winner: Row | None = None
    allowed: Sequence[AllowedChange] = ()
    report: Mapping[str, Any] = field(default_factory=dict)
    is_same_study: bool = False
    own_folder: StudyFolder | None = None

    @property
    def tolerance(self) -> float:
        """The largest difference of two scores, as a share, that is no difference."""
        return 0.0 if self.is_same_machine else TOLERANCE

    def trials(self, which: str) -> Sequence[Row]:
        """Return the rows for `best`, `all` or a number; StudyError where there is no such complete trial."""
        complete = [row for row in self.rows if row["state"] == "complete"]
        if not complete:
            raise StudyError("trials.csv: no trial is complete, so there is nothing to reproduce")
        if which == "all":
            return complete
        if which == "best":
            return [self.winner] if self.winner else complete[:1]
        if named := [row for row in complete if row["number"] == which]:
            return named
        numbers = ", ".join(row["number"] for row in complete)
        raise StudyError(f"trial: must be best, all, or the number of a complete trial ({numbers}), given {which!r}")


def read_files(folder: StudyFolder) -> StudyFiles:
    """Read the files of a study, or of a published copy; HpoError where one is missing or was changed since."""
    config, report = folder.config(), folder.report()
    _refuse_tampered(folder, report)
    environment = folder.read_json(folder.environment_path.name)
    changes, allowed = list(changed_environment(environment, describe_environment())), _allowed(report)
    is_same_machine = not any(change.startswith(_DECISIVE) for change in changes)
    for change in allowed:
        changes += [f"allowed after {change.trials or 'some'} trials: {line}" for line in change.changes]
        is_same_machine &= all(line.startswith("config:") for line in change.changes)
    return StudyFiles(folder, config, report, allowed, changes, is_same_machine)


def read_recorded(files: StudyFiles, elsewhere: Mapping[str, str] | None = None) -> Recorded:
    """Return the study of these files, its objective imported and its data read.

    `elsewhere` has the current locations of its data by their keys, such as `data.path`.
    """
    folder, config, report = files.folder, files.config, files.report
    for key in elsewhere or {}:
        if key not in flatten(config.objective_config):
            raise StudyError(f"{key}: the study has no such source of data; remove it")
    config = config.model_copy(update={"objective_config": config.trial_config(elsewhere or {})})
    config = config.model_copy(update={"study": config.study.model_copy(update={"imports": None})})
    study = prepare_study(config, folder.kept_function(config))
    names = [study.layout.name(index) for index in range(study.layout.size)]
    rows = read_rows(
        short_path(folder.trials_path), ("number", "state", "score", *own_columns(study.space.keys), *names)
    )
    data = list(changed_since(report, study.plan.parts if study.plan else {}, study.own.files))
    code = list(changed_code(report, code_of(study)))
    winner = recorded_winner(rows, report, config.study.direction)
    missing = [] if report else [f"{folder}/report.json: is missing, so changed files cannot be detected"]
    if report and not inner(report, "study", "code"):
        missing.append("code: report.json is of a version that noted no hashes of it, so a change cannot be detected")
    changes = [*missing, *data, *code, *files.changes]
    # Other libraries round in other ways; other code trains something else, and no difference is allowed for that.
    is_same = files.is_same_machine and not data and not any(change.startswith(_DECISIVE) for change in code)
    has_other_code = not inner(report, "study", "code") or any(change.startswith("code") for change in code)
    is_same_study = not (data or has_other_code or files.allowed)
    return Recorded(study, rows, changes, is_same, winner, files.allowed, report, is_same_study)


def _allowed(report: Mapping[str, Any]) -> list[AllowedChange]:
    """Return the allowed changes that a report, of whomever, tells of."""
    changes = inner(report, "study").get("allowed_changes")
    return [
        AllowedChange.from_dict({"time": "", **change})
        for change in (changes if isinstance(changes, list) else ())
        if isinstance(change, Mapping)
        and isinstance(change.get("trial", {}), Mapping)
        and isinstance(lines := change.get("changes"), list)
        and all(isinstance(line, str) for line in lines)
    ]


def amount_of(row: Row) -> int | None:
    """Return how far the row's trial was trained; None under a strategy that trains completely."""
    return int(row["amount"]) if row.get("amount") else None


def _refuse_tampered(folder: StudyFolder, report: Mapping[str, Any]) -> None:
    """Raise StudyError where a file of the study differs from the one in its report."""
    hashes = report.get("files") or {}
    if not isinstance(hashes, Mapping):
        raise StudyError(f"{folder}/report.json: its 'files' are not names with hashes; restore the file")
    for name, digest in hashes.items():
        path = folder.inside(name)
        if not path.exists() and path.parent != folder.path:
            continue  # The winner's model, which is not published.
        if not path.exists():
            raise StudyError(f"{short_path(path)}: is missing; restore it, or write it again with `hpo report`")
        if not folder.is_file(name, digest):
            raise StudyError(
                f"{short_path(path)}: is not the file that the report was written with; restore that, or, if the study "
                f"continued after it, write the report again with `hpo report`"
            )


def refuse_two_parts(files: StudyFiles) -> None:
    """Raise StudyError where a search was continued with another configuration: it cannot be run again as one."""
    for change in files.allowed:
        if any(line.startswith("config:") for line in change.changes):
            raise StudyError(
                f"{files.folder}: its configuration was changed after {change.trials or 'some'} trials, so the search "
                f"cannot be run again as one; `hpo reproduce {files.folder} --trial all` trains its trials again"
            )
