"""What watches a search: progress display, tracker, keeper of checkpoints."""

from typing import Protocol

from hpo.engine.dispatch.protocol import Report
from hpo.engine.trials.trial import Trial


class Observer(Protocol):
    """Is told what happens, after it has been written down. Nothing it does reaches the search."""

    def trial_opened(self, trial: Trial) -> None:
        """A trial starts, or an interrupted one goes on."""
        ...

    def reported(self, trial: Trial, report: Report) -> None:
        """A worker reported a point of a learning curve or an outcome."""
        ...

    def trial_finished(self, trial: Trial) -> None:
        """All folds of the trial are in."""
        ...
