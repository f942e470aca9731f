"""The observer of a search, such as a display, tracker or keeper; and the one that watches for failures at first."""

from hpo.engine.dispatch.dispatcher import TaskReport
from hpo.engine.record.acts import Instruction
from hpo.engine.training.payload import Task
from hpo.engine.trials.trial import Trial
from hpo.errors import StudyError

_LEAST = 3  # trials; fewer alike may be chance


class Observer:
    """Notified of events after they are recorded; does nothing by default. It cannot influence the search."""

    def trial_opened(self, trial: Trial) -> None:
        """React to the start of a trial, or the continuation of an interrupted one."""

    def task_begun(self, task: Task) -> None:
        """React to a task that a worker is given."""

    def reported(self, trial: Trial, report: TaskReport) -> None:
        """React to a worker's report: a point of a learning curve, or an outcome."""

    def trial_finished(self, trial: Trial) -> None:
        """React to the last outcome of a trial."""

    def instructed(self, instruction: Instruction) -> None:
        """React to what a hand has asked, which has taken effect."""

    def search_ended(self) -> None:
        """React to the end of the search; what follows it is trained next."""

    def followed_up(self, what: str, num_ended: int, num_all: int) -> None:
        """React to trainings that follow the search: what is trained, and how many of these trainings have ended."""


class FirstFailures(Observer):
    """Watches whether the first trials of a run, as many as there are lanes, all fail with the same error."""

    def __init__(self, lanes: int) -> None:
        self._most = max(lanes, _LEAST)
        self._errors: list[str | None] | None = []

    def trial_finished(self, trial: Trial) -> None:
        """Note the trial's error."""
        if self._errors is None:
            return
        self._errors.append(trial.error)
        if trial.state != "failed" or trial.error != self._errors[0]:
            self._errors = None

    def refuse_more(self) -> None:
        """Raise StudyError where all of the first trials have failed, with the same error."""
        if self._errors is not None and len(self._errors) >= self._most:
            raise StudyError(
                f"search: stopped, since the first {len(self._errors)} trials all failed with the same error: "
                f"{self._errors[0]}; the rest of the budget is kept: correct that, then start another study, or go on "
                f"with `hpo resume` (--allow-changes where the code has changed)"
            )
