"""The logs of a study's trainings, and why there are none."""

from pathlib import Path

from hpo.errors import StudyError
from hpo.study.files.folder import StudyFolder
from hpo.study.results.run import StudyRun
from hpo.study.study import is_outside
from hpo.trials.trial import Trial


def logs_of(folder: StudyFolder, number: int | None = None) -> list[Path]:
    """Return the logs of a study, or of one trial; StudyError where there is no such trial, or no log, says why."""
    found = sorted(folder.logs_dir.glob("trial_*.log" if number is None else folder.log_path(number, "*").name))
    if not found:
        run = StudyRun.read(folder)
        whose = f"study '{folder}'" if number is None else f"trial {number} of study '{folder}'"
        trials = run.trials if number is None else [run.trial(number, str(folder))]
        raise StudyError(f"logs: {whose} has none: {_why_none(run, trials)}")
    return found


def read_log(path: Path, most: int | None = None) -> str:
    """Return what is in a log, of more than `most` bytes the end.

    What is no regular file is not read: of a pipe that would never end.
    """
    if not path.is_file():
        return f"{path.name}: is no regular file, and is not read\n"
    with path.open("rb") as file:
        if most is not None:
            file.seek(max(0, path.stat().st_size - most))
        return file.read().decode("utf-8", errors="replace")


def _why_none(run: StudyRun, trials: list[Trial]) -> str:
    if not trials:
        return "no trial has begun"
    if is_outside(run.config):
        return "it is trained elsewhere, where what it prints is"
    if any(trial.state == "running" for trial in trials):
        return "nothing was printed so far, or the training goes on: its log is written when that ends"
    if run.config.dispatch.name == "local":
        return (
            "no Python code printed anything; with dispatch=local, in the driver's own process, what programs and "
            "libraries in C print goes to the terminal alone"
        )
    return "nothing was printed, or `hpo clean --logs` has deleted it"
