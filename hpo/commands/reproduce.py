"""`hpo.reproduce`: recorded trials, also of others, trained again."""

import datetime
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from hpo.commands.trust import ask_for_trust
from hpo.errors import ConfigError
from hpo.report.reproduced import ReportedNumber, refuse_contradictions, refuse_other_study, reported_numbers, unchecked
from hpo.report.sections.study import ReproductionPart
from hpo.study.files.folder import StudyFolder, find_study
from hpo.study.files.made_here import is_made_here
from hpo.study.reproduce.again import Repetition, not_compared
from hpo.study.reproduce.again import reproduce as train_again
from hpo.study.reproduce.recorded import Recorded, read_files, read_recorded
from hpo.workers.objective.path import ObjectivePath

if TYPE_CHECKING:
    import pandas as pd

Begin = Callable[[Recorded, float], Callable[[Repetition], None]]
"""Gets what a study recorded and the tolerance, and returns what each training is told to when it has ended."""


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
        One row per training: trial, name of the task, recorded and reproduced metric, error, and whether it holds. With
        several metrics, or limits, one per further metric of a trial: its name, and the means over all tasks. One more
        per number of report.json about these trials that is not what they give, named by its key
        (`report.json: winner.score`). `attrs["not checked"]` lists the keys of the report that do not follow from them.

    Raises:
        hpo.HpoError: there is no such study, it was not made here and is not trusted, or has no winner for `"best"`.
    """
    import pandas as pd

    finding = train_recorded(
        str(study), str(trial), folds=folds, tolerance=tolerance, data=data or {}, trust=trust, uri=uri
    )
    rows = [
        {key: value for key, value in vars(one).items() if key != "is_mean"} | {"holds": one.holds(finding.tolerance)}
        for one in finding.repetitions
    ]
    for one in finding.differing:
        row = {"trial": one.trial, "name": f"report.json: {one.key}", "recorded": one.said, "reproduced": one.given}
        rows.append(row | {"error": None, "holds": False})
    table = pd.DataFrame(rows)
    table.attrs["not checked"] = finding.unchecked
    return table


@dataclass(frozen=True)
class Finding:
    """What came of training recorded trials again: the trainings, and the report's numbers about these trials.

    `tolerance` is the largest difference, as a share, that is none; `unchecked` the keys of the report whose numbers do
    not follow from these trainings; `measured` further metrics that are not compared, being of the machine that trains.
    """

    repetitions: Sequence[Repetition]
    tolerance: float
    figures: Sequence[ReportedNumber]
    unchecked: Sequence[str]
    measured: Sequence[str] = ()

    @property
    def trainings(self) -> list[Repetition]:
        """The trainings by their leading metric."""
        return [one for one in self.repetitions if not one.is_mean]

    @property
    def means(self) -> list[Repetition]:
        """The means of further metrics, and of what has a limit."""
        return [one for one in self.repetitions if one.is_mean]

    @property
    def missed(self) -> list[Repetition]:
        """Which of both differ."""
        return [one for one in self.repetitions if not one.holds(self.tolerance)]

    @property
    def num_differing(self) -> int:
        """How many trainings differ: where it is only a mean that does, at least one of the trial's."""
        trials = {one.trial for one in self.missed}
        by_trial = ([one for one in self.missed if one.trial == trial and not one.is_mean] for trial in trials)
        return sum(max(1, len(missed)) for missed in by_trial)

    @property
    def differing(self) -> list[ReportedNumber]:
        """The numbers of the report that are not what its trainings give."""
        return [figure for figure in self.figures if not figure.holds]


def train_recorded(
    study: str,
    trial: str,
    *,
    folds: Sequence[int] | None,
    tolerance: float | None,
    data: Mapping[str, str],
    trust: bool,
    uri: str,
    begin: Begin = lambda _recorded, _tolerance: lambda _repetition: None,
) -> Finding:
    """Train recorded trials again, and compare them and what the report says of them; arguments as of `reproduce`."""
    if tolerance is not None and not 0 <= tolerance < 1:
        raise ConfigError(f"tolerance: must be at least 0 and below 1, given {tolerance}")
    with _find(study, trial, uri) as (folder, which):
        recorded, is_own = _read_trusted(folder, trust, data)
        allowed = recorded.files.tolerance if tolerance is None else tolerance
        repetitions = train_again(recorded, which, folds, begin(recorded, allowed))
        figures = reported_numbers(recorded, repetitions)
        measured = not_compared(recorded.study)
        finding = Finding(repetitions, allowed, figures, unchecked(recorded, figures), measured)
        if is_own:
            _note(finding, folder, folds, recorded.files.changes)
    return finding


def _note(finding: Finding, folder: StudyFolder, folds: Sequence[int] | None, changes: Sequence[str]) -> None:
    """Write what was found into the study's folder, for its next report; one that cannot be written stays as it is."""
    noted: ReproductionPart = {
        "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "trials": sorted({repetition.trial for repetition in finding.repetitions}),
        "folds": None if folds is None else sorted(set(folds)),
        "trainings": len(finding.trainings),
        "differing": finding.num_differing,
        "differing_numbers": len(finding.differing),
        "tolerance": finding.tolerance,
        "changes": list(changes),
    }
    with suppress(OSError):
        folder.write_json(folder.reproduction_path, noted)


@contextmanager
def _find(study: str, trial: str, uri: str) -> Iterator[tuple[StudyFolder, str]]:
    """Yield the folder of a study by its name, its folder, a report.json or an MLflow run, and the trial that is meant.

    A report.json is read with the files beside it, if there are any; `best` of a trial's run in MLflow is that trial.
    """
    path = Path(study)
    is_run, is_file = study.startswith("runs:/"), path.suffix == ".json" and path.is_file()
    if not (is_run or is_file):
        yield find_study(study), trial
        return
    if path.name == "report.json" and StudyFolder(path.parent).exists:
        yield StudyFolder(path.parent), trial
        return
    with TemporaryDirectory(prefix="hpo-reproduce-") as scratch:
        if is_run:
            from hpo.track.store import download_study

            number = download_study(study.removeprefix("runs:/"), uri, Path(scratch))
            yield StudyFolder(Path(scratch)), trial if number is None or trial != "best" else str(number)
        else:
            from hpo.study.reproduce.recorded import unpack_report

            yield unpack_report(path, Path(scratch)), trial


def _read_trusted(folder: StudyFolder, is_trusted: bool, elsewhere: Mapping[str, str]) -> tuple[Recorded, bool]:
    """Return what a study recorded, and whether it was made here; else ask before any of its code is imported."""
    files = read_files(folder)
    config = files.config
    refuse_contradictions(files.report, config)
    kept = folder.kept_function(config)
    if kept is None and ObjectivePath.of(config.objective).is_kept:
        raise ConfigError(
            f"objective: '{config.objective}' is kept in the folder of its study alone, so the report alone is "
            f"not enough; give that folder"
        )
    earlier = [change.trial for change in files.allowed if change.trials]
    # Before the question: a yes to a stranger's study does not make it one of this user.
    has_record = folder.database_path.exists() or config.study.storage is not None
    is_own = has_record and is_made_here(config, kept)
    ask_for_trust(config, files.changes, is_trusted, kept, earlier, elsewhere)
    recorded = read_recorded(files, elsewhere)
    refuse_other_study(recorded)
    return recorded, is_own
