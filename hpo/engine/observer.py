"""What watches a search: progress display, tracker, keepers of states and models."""

from hpo.engine.dispatch.dispatcher import Report
from hpo.engine.trials.trial import Trial


class Observer:
    """Is told what happens, after it has been written down; does nothing. Nothing it does reaches the search."""

    def trial_opened(self, trial: Trial) -> None:
        """Do what is due when a trial starts, or an interrupted one goes on."""

    def reported(self, trial: Trial, report: Report) -> None:
        """Do what is due when a worker reports a point of a learning curve or an outcome."""

    def trial_finished(self, trial: Trial) -> None:
        """Do what is due when all folds of the trial are in."""
