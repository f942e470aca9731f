"""`hpo.reproduce`: recorded trials, also of others, trained again."""

import datetime
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from hpo.errors import ConfigError

if TYPE_CHECKING:
    import pandas as pd

    from hpo.report.reproduced import ReportedNumber
    from hpo.report.sections.study import ReproductionPart
    from hpo.study.folder import StudyFolder
    from hpo.study.reproduce.again import Repetition
    from hpo.study.reproduce.recorded import Recorded


def reproduce(
    study: str | Path,
    trial: int | str = "best",
    *,
    folds: Sequence[int] | None = None,
    tolerance: float | None = None,
    data: Mapping[str, str] | None = None,
    trust: bool = False,
    uri: str = "sqlite:///mlflow.db",
) -> "pd.DataFrame":
    """Train recorded trials again in this process, as `hpo reproduce` does.

    Where the study was made, its folder gets what was found (reproduction.json), and its next report tells it.

    Args:
        study: its name under runs/, its folder, a report.json, or `runs:/ID` of MLflow.
        trial: `"best"`, `"all"`, or a trial's number.
        folds: only these; None = all.
        tolerance: the largest difference, as a share, that is none; None = 0 on the same machine, else 2 %.
        data: where the data lie now: `{"data.path": "there.csv"}`.
        trust: run a study that was not made here, after a look at it.
        uri: MLflow's address, for `runs:/ID`.

    Returns:
        One row per training: trial, name of the task, recorded and reproduced metric, error, and whether it holds. One
        more per number of report.json about these trials that is not what they give, named by its key
        (`report.json: winner.score`). `attrs["not checked"]` lists the keys of the report that do not follow from them.

    Raises:
        hpo.HpoError: there is no such study, or it was not made here and is not trusted.
    """
    import pandas as pd

    refuse_bad_tolerance(tolerance)
    with found(str(study), str(trial), uri) as (folder, which):
        finding = compare(trusted(folder, trust, data or {}), which, folds, tolerance, lambda _: None)
    rows = [vars(one) | {"holds": one.holds(finding.tolerance)} for one in finding.repetitions]
    for one in finding.differing:
        row = {"trial": one.trial, "name": f"report.json: {one.key}", "recorded": one.said, "reproduced": one.given}
        rows.append(row | {"error": None, "holds": False})
    table = pd.DataFrame(rows)
    table.attrs["not checked"] = finding.unchecked
    return table


@dataclass(frozen=True)
class Finding:
    """What came of training recorded trials again.

    Attributes:
        repetitions: the trainings.
        tolerance: the largest difference, as a share, that is none.
        figures: the numbers of the report about these trials.
        unchecked: the keys of the report whose numbers do not follow from these trainings.
    """

    repetitions: Sequence["Repetition"]
    tolerance: float
    figures: Sequence["ReportedNumber"]
    unchecked: Sequence[str]

    @property
    def missed(self) -> list["Repetition"]:
        """The trainings that differ."""
        return [one for one in self.repetitions if not one.holds(self.tolerance)]

    @property
    def differing(self) -> list["ReportedNumber"]:
        """The numbers of the report that are not what its trainings give."""
        return [figure for figure in self.figures if not figure.holds]


def compare(
    recorded: "Recorded",
    which: str,
    folds: Sequence[int] | None,
    tolerance: float | None,
    tell: Callable[["Repetition"], None],
) -> Finding:
    """Train the trials again, and compare them and what the report says of them.

    Args:
        recorded: the study.
        which: `best`, `all` or a trial's number.
        folds: only these; None = all.
        tolerance: the largest difference, as a share, that is none; None = what its machine and versions allow.
        tell: is called with each training when it is finished.
    """
    from hpo.report.reproduced import reported_numbers, unchecked
    from hpo.study.reproduce.again import reproduce as train_again

    repetitions = train_again(recorded, which, folds, tell)
    figures = reported_numbers(recorded, repetitions)
    allowed = recorded.tolerance if tolerance is None else tolerance
    finding = Finding(repetitions, allowed, figures, unchecked(recorded, figures))
    if recorded.own_folder is not None:
        _note(finding, recorded.own_folder, folds, recorded.changes)
    return finding


def _note(finding: Finding, folder: "StudyFolder", folds: Sequence[int] | None, changes: Sequence[str]) -> None:
    """Write what was found into the study's folder, for its next report; one that cannot be written stays as it is."""
    noted: ReproductionPart = {
        "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "trials": sorted({repetition.trial for repetition in finding.repetitions}),
        "folds": None if folds is None else sorted(set(folds)),
        "trainings": len(finding.repetitions),
        "differing": len(finding.missed),
        "differing_numbers": len(finding.differing),
        "tolerance": finding.tolerance,
        "changes": list(changes),
    }
    with suppress(OSError):
        folder.write_json(folder.reproduction_path, noted)


def refuse_bad_tolerance(tolerance: float | None) -> None:
    """Raise ConfigError for what is no share of a score."""
    if tolerance is not None and not 0 <= tolerance < 1:
        raise ConfigError(f"tolerance: must be at least 0 and below 1, given {tolerance}")


@contextmanager
def found(study: str, trial: str, uri: str) -> Iterator[tuple["StudyFolder", str]]:
    """Yield the folder of a study by its name, its folder, a report.json or an MLflow run, and the trial that is meant.

    Args:
        study: `runs:/ID` for a run in MLflow; a report.json is read with the files beside it, if there are any.
        trial: `best` of a trial's own run in MLflow is that trial.
        uri: MLflow's address.
    """
    from hpo.study.folder import StudyFolder, find_study

    path = Path(study)
    if study.startswith("runs:/"):
        from hpo.track.mlflow.contents import download_study

        with TemporaryDirectory(prefix="hpo-mlflow-") as scratch:
            number = download_study(study.removeprefix("runs:/"), uri, Path(scratch))
            yield StudyFolder(Path(scratch)), trial if number is None or trial != "best" else str(number)
    elif path.suffix != ".json" or not path.is_file():
        yield find_study(study), trial
    elif path.name == "report.json" and StudyFolder(path.parent).exists:
        yield StudyFolder(path.parent), trial
    else:
        from hpo.study.reproduce.report_alone import unpack_report

        with TemporaryDirectory(prefix="hpo-report-") as scratch:
            yield unpack_report(path, Path(scratch)), trial


def trusted(folder: "StudyFolder", is_trusted: bool, elsewhere: Mapping[str, str]) -> "Recorded":
    """Return what a study recorded; ask first, before any of its code is imported, where it was not made here.

    Args:
        folder: the study's.
        is_trusted: whether another person's study is run without a question.
        elsewhere: the present paths of the data, by key.
    """
    from hpo.engine.training.objective.path import ObjectivePath
    from hpo.interface.trust import ask_for_trust
    from hpo.report.repeated import refuse_contradictions, refuse_other_study
    from hpo.study.made_here import is_made_here
    from hpo.study.reproduce.recorded import read_files, read_recorded

    files = read_files(folder)
    refuse_contradictions(files.report, files.config)
    kept = folder.kept_function(files.config)
    if kept is None and ObjectivePath.of(files.config.objective).is_kept:
        raise ConfigError(
            f"objective: '{files.config.objective}' is kept in the folder of its study alone, so the report alone is "
            f"not enough; give that folder"
        )
    earlier = [change.trial for change in files.allowed if change.trials]
    # Before the question: a yes to a stranger's study does not make it one of this user.
    is_own = (folder.database_path.exists() or files.config.study.storage is not None) and is_made_here(
        files.config, kept
    )
    ask_for_trust(files.config, files.changes, is_trusted, kept, earlier, elsewhere)
    recorded = read_recorded(files, elsewhere)
    refuse_other_study(recorded)
    return replace(recorded, own_folder=folder) if is_own else recorded
