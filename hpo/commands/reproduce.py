"""`reproduce`: recorded trials, also of others, trained again."""

import datetime
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

from hpo.commands.arguments import DataPlaces, Fields, Progress, Trust, Word
from hpo.errors import ConfigError, printable
from hpo.study.files.folder import StudyFolder, find_study
from hpo.study.files.made_here import is_made_here
from hpo.workers.objective.path import ObjectivePath

if TYPE_CHECKING:
    import pandas as pd

    from hpo.report.reproduced import ReportedNumber
    from hpo.report.sections.study import ReproductionPart
    from hpo.study.reproduce.again import Repetition
    from hpo.study.reproduce.recorded import Recorded


@dataclass(frozen=True)
class Reproduction(Fields):
    """What training recorded trials again gave, next to what was recorded.

    Attributes:
        study: as it was given.
        is_reproduced: whether everything holds.
        tolerance: the largest difference, as a share, that is none.
        folds: which were trained; `null` = all.
        trainings: of each: `trial`, `name`, `recorded`, `reproduced`, `error`, `is_mean` (of a further metric), and
            `holds`.
        report_numbers: how many numbers of report.json were compared.
        differing_numbers: those that differ: `trial`, `key`, `said`, `recorded`, `given` by the trainings.
        measured_metrics: metrics of the machine that trains.
        not_checked: keys of report.json that do not follow from these trainings.
    """

    study: str
    tolerance: float
    folds: Sequence[int] | None
    trainings: "Sequence[Repetition]"
    report_numbers: int
    differing_numbers: "Sequence[ReportedNumber]"
    measured_metrics: Sequence[str]
    not_checked: Sequence[str]

    @property
    def is_reproduced(self) -> bool:
        """Whether all trainings give what was recorded, and the report's numbers follow from them."""
        return not self._missed and not self.differing_numbers

    @property
    def exit_code(self) -> int:
        """1 where something differs."""
        return 0 if self.is_reproduced else 1

    @property
    def table(self) -> "pd.DataFrame":
        """One row per training: trial, name of the task, recorded and reproduced metric, error, and whether it holds.

        With several metrics, or limits, one per further metric of a trial: its name, and the means over all tasks. One
        more per number of report.json about these trials that is not what they give, named by its key
        (`report.json: winner.score`).
        """
        import pandas as pd

        rows = [{key: value for key, value in row.items() if key != "is_mean"} for row in self._rows()]
        for one in self.differing_numbers:
            row = {"trial": one.trial, "name": f"report.json: {one.key}", "recorded": one.said, "reproduced": one.given}
            rows.append(row | {"error": None, "holds": False})
        return pd.DataFrame(rows)

    @property
    def num_trainings(self) -> int:
        """How many there were; the means of further metrics are none."""
        return sum(not one.is_mean for one in self.trainings)

    @property
    def num_differing(self) -> int:
        """How many trainings differ: where it is only a mean that does, at least one of the trial's."""
        trials = {one.trial for one in self._missed}
        by_trial = ([one for one in self._missed if one.trial == trial and not one.is_mean] for trial in trials)
        return sum(max(1, len(missed)) for missed in by_trial)

    @property
    def _missed(self) -> "list[Repetition]":
        return [one for one in self.trainings if not one.holds(self.tolerance)]

    def __str__(self) -> str:
        return "\n".join(map(printable, self._lines()))

    def _lines(self) -> Iterator[str]:
        """Yield what of the report holds, and the conclusion."""
        if self.folds is not None and self.report_numbers:
            yield "numbers of report.json: worked out from the recorded values, since only some folds were trained"
        for figure in self.differing_numbers:
            is_trained = figure.given == figure.recorded and self.folds is None
            gives = "the trainings give" if is_trained else "the recorded values give"
            text = f"report.json: {figure.key} is {figure.said!r}, {gives} {figure.recorded!r}"
            yield f"{text}  <-- not reproduced"
        if differing := sorted({one.name for one in self._missed if one.is_mean and one.reproduced is not None}):
            yield (
                f"{', '.join(differing)}: if the machine that trains decides it, as it does a latency, let "
                f"describe_method of the objective return 'measured': {differing}, and it is not compared"
            )
        if self.measured_metrics:
            yield f"not compared: {', '.join(self.measured_metrics)}, measured on the machine that trains"
        if self.not_checked:
            yield f"not checked: {', '.join(self.not_checked)} of report.json"
        trainings, numbers = self.num_trainings, self.report_numbers
        if not self.is_reproduced:
            says = f"{self.num_differing} of {trainings} trainings differ"
            differ = len(self.differing_numbers)
            yield f"not reproduced: {says}" + (f", and {differ} of {numbers} numbers of report.json" if differ else "")
            return
        names = ", ".join(dict.fromkeys(one.name for one in self.trainings if one.is_mean))
        means = f", the mean of {names}" if names else ""
        held = f"all {trainings} trainings" if trainings > 1 else "the training"
        yield f"reproduced: {held}{means}" + (f", and {numbers} numbers of report.json" if numbers else "")

    def to_dict(self) -> dict[str, Any]:
        """Return its fields, and what follows from them."""
        return {**super().to_dict(), "is_reproduced": self.is_reproduced, "trainings": self._rows()}

    def _rows(self) -> list[dict[str, Any]]:
        return [vars(one) | {"holds": one.holds(self.tolerance)} for one in self.trainings]

    def _repr_html_(self) -> str:
        """Return its table, which a notebook shows."""
        html: str = self.table.to_html()
        return html


def fold_numbers(text: str) -> list[int]:
    """Return the numbers of folds that a word such as `0,1` names."""
    parts = text.split(",")
    if not all(part.strip().isdigit() for part in parts):
        raise ConfigError(f"--folds: must be numbers of folds such as 0,1, given {text!r}")
    return [int(part) for part in parts]


def reproduce(
    study: Annotated[str | Path, Word("STUDY", "its name under runs/, a folder, a report.json, or runs:/RUN_ID")],
    trial: Annotated[str | int, Word("N", option="--trial")] = "best",
    data: DataPlaces | None = None,
    *,
    folds: Annotated[Sequence[int] | None, Word("K,K", read=fold_numbers)] = None,
    tolerance: Annotated[float | None, Word("X")] = None,
    trust: Trust = False,
    uri: str = "sqlite:///mlflow.db",
    progress: Progress = "auto",
) -> Reproduction:
    """Train recorded trials again in this process and compare; exit code 1 when they differ.

    Where the study was made, its folder gets what was found (reproduction.json), and its next report tells it.

    Args:
        trial: a trial's number, all, or best (default: best).
        folds: only these folds (default: all).
        tolerance: largest difference, as a share of the recorded (default: 0 on the same machine, else 0.02).
        uri: MLflow's address, for runs:/RUN_ID.
        progress: auto = a line for each training; json = JSON lines on standard error; none = only what it came to.

    Returns:
        The comparison, with `is_reproduced`, and `table`, one row per training.

    Raises:
        hpo.HpoError: there is no such study, it was not made here and is not trusted, or has no winner for `best`.

    Examples:
        hpo reproduce digits                          the winner, on all its folds
        hpo reproduce digits --trial 3 --folds 0,1
        hpo reproduce studies/digits --trial all      a published study: nothing but its folder is needed
        hpo reproduce studies/digits/report.json
        hpo reproduce studies/reviews data.path=here/reviews.csv   the data lie elsewhere now
        hpo reproduce runs:/0123456789abcdef          from MLflow alone (a study's run, or a trial's)
    """
    if tolerance is not None and not 0 <= tolerance < 1:
        raise ConfigError(f"tolerance: must be at least 0 and below 1, given {tolerance}")
    from hpo.report.reproduced import reported_numbers, unchecked
    from hpo.study.reproduce.again import measured_metrics
    from hpo.study.reproduce.again import reproduce as train_again

    with _find(str(study), str(trial), uri) as (folder, which):
        recorded, is_own = _read_trusted(folder, trust, data or {})
        allowed = recorded.files.tolerance if tolerance is None else tolerance
        trainings = train_again(recorded, which, folds, _shown(recorded, allowed, progress))
        numbers = reported_numbers(recorded, trainings)
        found = Reproduction(
            str(study),
            allowed,
            folds,
            trainings,
            len(numbers),
            [one for one in numbers if not one.holds],
            measured_metrics(recorded.study),
            unchecked(recorded, numbers),
        )
        if is_own:
            _note(found, folder, recorded.files.changes)
    return found


def _shown(recorded: "Recorded", tolerance: float, progress: Progress) -> "Callable[[Repetition], None]":
    """Print what has changed and what is demanded; return what prints each training."""
    changes = recorded.files.changes
    if progress in ("none", False):
        return lambda _: None
    if progress == "json":
        from hpo.show.json_lines import print_event

        print_event("begun", changes=changes, tolerance=tolerance)
        return lambda one: print_event("training", **vars(one), holds=one.holds(tolerance))
    print("what changed:" if changes else "what changed: nothing")
    for change in changes:
        print(f"  {printable(change)}")
    print("demanded: " + ("the same to the last bit" if tolerance == 0 else f"differences up to {tolerance:.1%}"))

    def show(repetition: "Repetition") -> None:
        now, before = repetition.reproduced, repetition.recorded
        says = f"failed: {repetition.error}" if now is None else f"{now:.6g}  difference {now - before:+.2g}"
        conclusion = "" if repetition.holds(tolerance) else "  <-- not reproduced"
        what = f"mean {repetition.name}" if repetition.is_mean else repetition.name
        head = f"trial {repetition.trial}  {what}  recorded {before:.6g}"
        print(printable(f"{head}  reproduced {says}{conclusion}"), flush=True)

    return show


def _note(found: Reproduction, folder: StudyFolder, changes: Sequence[str]) -> None:
    """Write what was found into the study's folder, for its next report; one that cannot be written stays as it is."""
    noted: ReproductionPart = {
        "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "trials": sorted({repetition.trial for repetition in found.trainings}),
        "folds": None if found.folds is None else sorted(set(found.folds)),
        "trainings": found.num_trainings,
        "differing": found.num_differing,
        "differing_numbers": len(found.differing_numbers),
        "tolerance": found.tolerance,
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


def _read_trusted(folder: StudyFolder, is_trusted: bool, elsewhere: Mapping[str, str]) -> "tuple[Recorded, bool]":
    """Return what a study recorded, and whether it was made here; else ask before any of its code is imported."""
    from hpo.commands.trust import ask_for_trust
    from hpo.report.reproduced import refuse_contradictions, refuse_other_study
    from hpo.study.reproduce.recorded import read_files, read_recorded

    files = read_files(folder)
    config = files.config
    refuse_contradictions(files.report, config)
    pickled = folder.pickled_function(config)
    if pickled is None and ObjectivePath.of(config.objective).is_kept:
        raise ConfigError(
            f"objective: '{config.objective}' is kept in the folder of its study alone, so the report alone is "
            f"not enough; give that folder"
        )
    earlier = [change.trial for change in files.allowed if change.trials]
    # Before the question: a yes to a stranger's study does not make it one of this user.
    has_record = folder.database_path.exists() or config.study.storage is not None
    is_own = has_record and is_made_here(config, pickled)
    ask_for_trust(config, files.changes, is_trusted, pickled, earlier, elsewhere)
    recorded = read_recorded(files, elsewhere)
    refuse_other_study(recorded)
    return recorded, is_own
