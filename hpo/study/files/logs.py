"""The logs of a study: what each task printed, by trial."""

from collections.abc import Sequence
from pathlib import Path

from hpo.engine.training.task_builder import FINAL_FOLD
from hpo.engine.trials.trial import TaskLayout
from hpo.errors import StudyError
from hpo.study.files.folder import StudyFolder


def log_name(trial: int, index: int, layout: TaskLayout) -> str:
    """Return the name of a task's log, such as trial_0003_fold_0.log; the final training's ends with `final`."""
    return f"trial_{trial:04d}_{'final' if index == FINAL_FOLD else layout.name(index)}.log"


def logs_of(folder: StudyFolder, trial: int | None = None) -> Sequence[Path]:
    """Return the logs of a study, or of one trial, in the order of trials; StudyError where nothing was printed."""
    prefix = "trial_" if trial is None else f"trial_{trial:04d}_"
    found = sorted(folder.logs_dir.glob(f"{prefix}*.log"))
    if not found:
        whose = "study" if trial is None else f"trial {trial} of study"
        raise StudyError(
            f"logs: {whose} '{folder}' has none: its trainings printed nothing, or ran in the driver's own process "
            f"(dispatch=local), which prints to the terminal"
        )
    return found
