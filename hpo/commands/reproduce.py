"""`reproduce`: trains recorded trials again, from your own studies or from published ones."""

import datetime
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

from hpo.commands.arguments import DataPlaces, Fields, Progress, Trust, Word, name_or_path, refuse_without_effect
from hpo.config.keys import is_number
from hpo.errors import ConfigError, printable
from hpo.show.display import refuse_unknown_progress
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
    """The scores of repeated trainings, next to the recorded scores.

    Attributes:
        study: the study, as the user named it.
        is_reproduced: whether all trainings and all numbers of report.json agree with the record.
        tolerance: the largest allowed difference, as a share of the larger of the two values.
        folds: the trained folds; `null` = all.
        trainings: an entry for each compared value, with the fields `trial`, `name`, `recorded`, `reproduced`, `error`,
            `is_mean`, `is_fresh`, and `holds` (whether the two values agree). If `is_mean` is false, the value is the
            leading metric of one training. If `is_mean` is true, it is the mean of another metric over all trainings of
            the trial. If `is_fresh` is true, the value comes from a finalist's trainings on fresh seeds.
        report_numbers: how many numbers of report.json were compared.
        differing_numbers: the numbers of report.json that differ. Each has `trial`, `key`, and the value in the report
            (`said`), in the record (`recorded`) and from the trainings (`given`).
        not_compared: metrics that depend on the machine; the leading metric is always compared.
        not_checked: keys of report.json that do not follow from these trainings.
        num_left_out: with `--trial all`, how many trials were not trained again, because they are not complete.
    """

    study: str
    tolerance: float
    folds: Sequence[int] | None
    trainings: "Sequence[Repetition]"
    report_numbers: int
    differing_numbers: "Sequence[ReportedNumber]"
    not_compared: Sequence[str]
    not_checked: Sequence[str]
    num_left_out: int

    @property
    def is_reproduced(self) -> bool:
        """Whether all trainings and all numbers of report.json agree with the record."""
        return not self._missed and not self.differing_numbers

    @property
    def exit_code(self) -> int:
        """The exit code: 0 if all trainings and all numbers of report.json agree with the record, else 1."""
        return 0 if self.is_reproduced else 1

    @property
    def table(self) -> "pd.DataFrame":
        """One row per training: trial, task, recorded and reproduced value, error, and whether the two values agree.

        If all folds were trained, the table also has each metric's mean over a trial's trainings, one row per mean.
        Such a row is named `mean METRIC`, or `mean METRIC on fresh seeds`. The leading metric and the metrics in
        `not_compared` have no such rows.

        If a number of report.json differs from the record, the table also has a row for this number. The row is named
        after the number's key, such as `report.json: winner.score`.
        """
        import pandas as pd

        rows = [
            {key: value for key, value in row.items() if not key.startswith("is_")} | {"name": one.label}
            for one, row in zip(self.trainings, self._rows(), strict=True)
        ]
        for one in self.differing_numbers:
            row = {"trial": one.trial, "name": f"report.json: {one.key}", "recorded": one.said, "reproduced": one.given}
            rows.append(row | {"error": None, "holds": False})
        return pd.DataFrame(rows)

    @property
    def num_trainings(self) -> int:
        """The number of repeated trainings; entries of `trainings` with `is_mean` true do not count."""
        return sum(not one.is_mean for one in self.trainings)

    @property
    def num_differing(self) -> int:
        """The number of trainings that differ from the record.

        If a trial differs only in means (entries with `is_mean` true), this trial counts as one training.
        """
        trials = {one.trial for one in self._missed}
        by_trial = ([one for one in self._missed if one.trial == trial and not one.is_mean] for trial in trials)
        return sum(max(1, len(missed)) for missed in by_trial)

    @property
    def _missed(self) -> "list[Repetition]":
        return [one for one in self.trainings if not one.holds(self.tolerance)]

    def __str__(self) -> str:
        return "\n".join(map(printable, self._lines()))

    def _lines(self) -> Iterator[str]:
        """Yield lines of text: the numbers of report.json that differ, the metrics not compared, and the conclusion."""
        if self.folds is not None and self.report_numbers:
            yield "only some folds were trained, so report.json is compared with trials.csv, not with the new trainings"
        for figure in self.differing_numbers:
            is_trained = figure.given == figure.recorded and self.folds is None
            gives = "the trainings give" if is_trained else "the recorded values give"
            text = f"report.json: {figure.key} is {figure.said!r}, {gives} {figure.recorded!r}"
            yield f"{text}  <-- not reproduced"
        if differing := sorted({one.name for one in self._missed if one.is_mean and one.reproduced is not None}):
            yield (
                f"{', '.join(differing)}: not reproduced; to leave metrics that depend on the machine out of the "
                f"comparison, return their names from the objective's describe_method: {{'measured': {differing}}}"
            )
        if self.not_compared:
            yield f"metrics that depend on the machine are not compared: {', '.join(self.not_compared)}"
        if self.num_left_out:
            yield f"trials that are not complete and were not trained again: {self.num_left_out}"
        if self.not_checked:
            yield f"not checked: {', '.join(self.not_checked)} of report.json"
        trainings, numbers = self.num_trainings, self.report_numbers
        if not self.is_reproduced:
            text = f"{self.num_differing} of {trainings} trainings differ"
            differ = len(self.differing_numbers)
            yield f"not reproduced: {text}" + (f", and {differ} of {numbers} numbers of report.json" if differ else "")
            return
        names = ", ".join(dict.fromkeys(one.name for one in self.trainings if one.is_mean))
        means = f", the mean of {names}" if names else ""
        equal = f"all {trainings} trainings" if trainings > 1 else "the training"
        yield f"reproduced: {equal}{means}" + (f", and {numbers} numbers of report.json" if numbers else "")

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a dict; add the key `is_reproduced`, and add the key `holds` to each training."""
        return {**super().to_dict(), "is_reproduced": self.is_reproduced, "trainings": self._rows()}

    def _rows(self) -> list[dict[str, Any]]:
        return [vars(one) | {"holds": one.holds(self.tolerance)} for one in self.trainings]

    def _repr_html_(self) -> str:
        """Return the table, for a notebook."""
        html: str = self.table.to_html()
        return html


def fold_numbers(text: str) -> list[int]:
    """Return the fold numbers in a text such as `0,1`; ConfigError for any other text."""
    parts = text.split(",")
    if not all(part.strip().isdigit() for part in parts):
        raise ConfigError(f"--folds: must be fold numbers separated by commas (such as 0,1), given {text!r}")
    return [int(part) for part in parts]


def reproduce(
    study: Annotated[
        str | PathLike[str],
        Word("STUDY", "a study's name under runs/, its folder, its report.json, or an MLflow run (runs:/RUN_ID)"),
    ],
    trial: Annotated[str | int, Word("N", option="--trial")] = "best",
    data: DataPlaces | None = None,
    *,
    folds: Annotated[Sequence[int] | None, Word("K,K", read=fold_numbers)] = None,
    tolerance: Annotated[float | None, Word("X")] = None,
    trust: Trust = False,
    uri: str = "sqlite:///mlflow.db",
    progress: Progress = "auto",
) -> Reproduction:
    """Train recorded trials again in this process, and compare the new scores with the recorded scores.

    The exit code is 1 if scores differ.

    On the machine that made the study, the result goes into reproduction.json in the study's folder, and into the next
    report.

    Args:
        trial: a trial's number, 'all' or 'best' (default: best); a finalist is also trained on its fresh seeds.
        data: new paths of moved data, by configuration key, such as data.path=there.csv.
        folds: train only these folds, without fresh seeds (default: all folds, and the fresh seeds of a finalist).
        tolerance: largest allowed difference between two scores, as a share of the larger score (default: 0 on the same
            machine, else 0.02).
        trust: run the code of another machine's study without asking first.
        uri: the address of MLflow, if the study is given as runs:/RUN_ID.
        progress: auto = one line per training; json = JSON lines on standard error; none = only the result.

    Returns:
        The result of the comparison. `is_reproduced` says whether all values agree; `table` has one row per training.

    Raises:
        hpo.HpoError: the study does not exist, is from another machine and not trusted, or has no winner.

    Examples:
        hpo reproduce digits                          the winner, on all its folds
        hpo reproduce digits --trial 3 --folds 0,1
        hpo reproduce studies/digits --trial all      a published study, from its folder alone
        hpo reproduce studies/digits/report.json
        hpo reproduce studies/reviews data.path=here/reviews.csv   the data were moved
        hpo reproduce runs:/0123456789abcdef          from MLflow alone (a study's run, or a trial's)
    """
    refuse_unknown_progress(progress)
    if tolerance is not None and not (is_number(tolerance) and 0 <= tolerance < 1):
        raise ConfigError(f"tolerance: must be at least 0 and below 1, given {tolerance!r}")
    if folds is not None and not (isinstance(folds, Sequence) and folds and all(isinstance(k, int) for k in folds)):
        raise ConfigError(f"folds: must be a list of fold numbers, such as [0, 1], given {folds!r}")
    from hpo.report.reproduced import reported_numbers, unchecked
    from hpo.study.reproduce.again import measured_metrics
    from hpo.study.reproduce.again import reproduce as train_again

    name = name_or_path(study)
    if not name.startswith("runs:/"):
        refuse_without_effect({"uri": uri != "sqlite:///mlflow.db"}, "unless the study is given as runs:/RUN_ID")
    with _find(name, str(trial), uri) as (folder, which):
        recorded, is_own = _read_trusted(folder, trust, data or {})
        allowed = recorded.files.tolerance if tolerance is None else tolerance
        trainings = train_again(recorded, which, folds, _printer(recorded, allowed, progress))
        numbers = reported_numbers(recorded, trainings)
        result = Reproduction(
            name,
            allowed,
            folds,
            trainings,
            len(numbers),
            [one for one in numbers if not one.holds],
            measured_metrics(recorded.study),
            unchecked(recorded, numbers),
            sum(row["state"] != "complete" for row in recorded.rows) if which == "all" else 0,
        )
        if is_own:
            _save_result(result, folder, recorded.files.changes)
    return result


def _printer(recorded: "Recorded", tolerance: float, progress: Progress) -> "Callable[[Repetition], None]":
    """Print the changes since the search, and the tolerance; return a function that prints the result of a training."""
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
    print("required: " + ("bitwise equal scores" if tolerance == 0 else f"differences up to {tolerance:.1%}"))

    def show(repetition: "Repetition") -> None:
        now, before = repetition.reproduced, repetition.recorded
        text = f"failed: {repetition.error}" if now is None else f"{now:.6g}  difference {now - before:+.2g}"
        conclusion = "" if repetition.holds(tolerance) else "  <-- not reproduced"
        head = f"trial {repetition.trial}  {repetition.label}  recorded {before:.6g}"
        print(printable(f"{head}  reproduced {text}{conclusion}"), flush=True)

    return show


def _save_result(result: Reproduction, folder: StudyFolder, changes: Sequence[str]) -> None:
    """Write the result into the study's folder, for the study's next report; a read-only folder stays unchanged."""
    content: ReproductionPart = {
        "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "trials": sorted({repetition.trial for repetition in result.trainings}),
        "folds": None if result.folds is None else sorted(set(result.folds)),
        "trainings": result.num_trainings,
        "differing": result.num_differing,
        "differing_numbers": len(result.differing_numbers),
        "tolerance": result.tolerance,
        "changes": list(changes),
    }
    with suppress(OSError):
        folder.write_json(folder.reproduction_path, content)


@contextmanager
def _find(study: str, trial: str, uri: str) -> Iterator[tuple[StudyFolder, str]]:
    """Yield the folder of a study, and the trial to train again; delete downloaded files at the end.

    `study` is a name, a folder, a report.json or an MLflow run. The yielded trial is `trial`. If `trial` is `best` and
    `study` is a trial's MLflow run, yield the number of this run's trial instead.
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

            yield unpack_report(path, Path(scratch), trial), trial


def _read_trusted(folder: StudyFolder, is_trusted: bool, elsewhere: Mapping[str, str]) -> "tuple[Recorded, bool]":
    """Return the recorded study of a folder, and whether this machine made the study and has its record.

    First ask whether the user trusts the code of the study, unless the study needs no question (see `ask_for_trust`).
    """
    from hpo.commands.trust import ask_for_trust
    from hpo.report.reproduced import refuse_contradictions, refuse_other_study
    from hpo.study.reproduce.recorded import read_files, read_recorded

    files = read_files(folder)
    config = files.config
    refuse_contradictions(files.report, config)
    pickled = folder.pickled_function(config)
    if pickled is None and ObjectivePath.of(config.objective).is_pickled:
        raise ConfigError(
            f"objective: '{config.objective}' is stored only in the folder of its study; give that folder, because "
            f"reports and published copies do not contain the objective"
        )
    earlier = [change.trial for change in files.allowed if change.trials]
    # Look this up before the question, because a yes marks the study as trusted on this machine.
    has_record = folder.database_path.exists() or config.study.storage is not None
    is_own = has_record and is_made_here(config, pickled)
    ask_for_trust(config, files.changes, is_trusted, pickled, earlier, elsewhere)
    recorded = read_recorded(files, elsewhere)
    refuse_other_study(recorded)
    return recorded, is_own
