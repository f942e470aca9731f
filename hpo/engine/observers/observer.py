"""The observer of a search: progress display, tracker, keepers of states and models."""

from hpo.engine.dispatch.dispatcher import Report
from hpo.engine.training.payload import Task
from hpo.engine.trials.trial import Trial


class Observer:
    """Notified of events after they are recorded; does nothing by default. It cannot influence the search."""

    def trial_opened(self, trial: Trial) -> None:
        """React to the start of a trial, or the continuation of an interrupted one."""

    def task_begun(self, task: Task) -> None:
        """React to a task that a worker is given."""

    def reported(self, trial: Trial, report: Report) -> None:
        """React to a worker's report: a point of a learning curve, or an outcome."""

    def trial_finished(self, trial: Trial) -> None:
        """React to the last outcome of a trial."""
