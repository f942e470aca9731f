"""Deletes the states of trainings that are over, which nobody goes on with any more."""

import shutil

from hpo.dispatch.protocol import Report
from hpo.trials import Trial


class StateKeeper:
    """An observer: a training's state lasts until its outcome is in the record, and where a rung follows, longer."""

    def trial_opened(self, trial: Trial) -> None:
        """Do nothing."""

    def reported(self, trial: Trial, report: Report) -> None:
        """Delete the state of a task that has given its outcome."""
        state = report.task.payload.get("resume_dir")
        if report.outcome is not None and trial.amount is None and state is not None:
            shutil.rmtree(state, ignore_errors=True)

    def trial_finished(self, trial: Trial) -> None:
        """Do nothing."""
