"""The logs of a study's trainings, or the reason why there are none."""

from pathlib import Path

from hpo.errors import StudyError
from hpo.study.files.folder import StudyFolder
from hpo.study.results.run import StudyRun
from hpo.study.study import is_outside
from hpo.trials.trial import Trial


def logs_of(folder: StudyFolder, number: int | None = None) -> list[Path]:
    """Return the logs of a trial by its number, or of the whole study if `number` is None.

    Raises:
        StudyError: there is no such trial, or there are no logs.
    """
    logs = sorted(folder.logs_dir.glob("trial_*.log" if number is None else folder.log_path(number, "*").name))
    if not logs:
        run = StudyRun.read(folder)
        name = f"study '{folder}'" if number is None else f"trial {number} of study '{folder}'"
        trials = run.trials if number is None else [run.trial(number, str(folder))]
        raise StudyError(f"logs: {name} has no logs: {_why_no_logs(run, trials)}")
    return logs


def read_log(path: Path, most: int | None = None) -> str:
    """Return the text of a log, or the text in its last `most` bytes.

    If the path is a pipe or a device, return a line that says so, because reading a pipe might never end.
    """
    if not path.is_file():
        return f"{path.name}: is not a regular file, and is not read\n"
    with path.open("rb") as file:
        if most is not None:
            file.seek(max(0, path.stat().st_size - most))
        return file.read().decode("utf-8", errors="replace")


def _why_no_logs(run: StudyRun, trials: list[Trial]) -> str:
    if not trials:
        return "no trial has begun"
    if is_outside(run.config):
        return "another program runs the trainings; look for the output there"
    if any(trial.state == "running" for trial in trials):
        return (
            "nothing was printed so far, or the log is not written yet; a running training writes its log when it "
            "reports (at most once every 5 s) and when it ends; try again later"
        )
    if run.config.dispatch.name == "local":
        return (
            "no Python code printed anything; with dispatch=local, which trains in the driver's process, output of "
            "programs and C libraries goes only to the terminal"
        )
    return "nothing was printed, or `hpo clean --logs` deleted the log"
