"""The observer of a search, such as a display, tracker or keeper; and the one that watches for failures at first."""

from hpo.errors import StudyError
from hpo.trials.record.user_actions import Instruction
from hpo.trials.trial import Trial
from hpo.workers.dispatch.dispatcher import TaskReport
from hpo.workers.training.payload import Task


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
    """Watches whether the first trials of a run, so many, all fail with the same error; None = whatever they do.

    Of a training that does not report what it is scored by, one is enough, unless one before was scored (`is_scored`).
    """

    def __init__(self, most: int | None, is_scored: bool = False) -> None:
        self._most = most
        self._errors: list[str | None] | None = []
        self._is_scored = is_scored
        self._lacks_metric: str | None = None

    def reported(self, trial: Trial, report: TaskReport) -> None:
        """Note whether a training was scored, or cannot be."""
        if report.outcome is None or self._is_scored:
            return
        self._is_scored = report.outcome.error is None
        if report.lacks_metric:
            self._lacks_metric = f"trial {trial.number} failed: {report.outcome.error}"

    def trial_finished(self, trial: Trial) -> None:
        """Note the trial's error."""
        if self._errors is None:
            return
        self._errors.append(trial.error)
        if trial.state != "failed" or trial.error != self._errors[0]:
            self._errors = None

    def refuse_more(self) -> None:
        """Raise StudyError where all of the first trials have failed, with the same error, or a metric is missing."""
        if self._most is None:
            return
        if self._lacks_metric is not None:
            raise StudyError(
                f"search: stopped, {self._lacks_metric}; all others would fail like this: let the objective report it, "
                f"and go on with `hpo resume` (--allow-changes); or search under another study.name by what is "
                f"reported: study.metric, or study.metrics and study.limits"
            )
        if self._errors is not None and len(self._errors) >= self._most:
            first = "trial" if self._most == 1 else f"{len(self._errors)} trials all"
            raise StudyError(
                f"search: stopped by study.stop_after_failures={self._most} (null = never): the first {first} failed "
                f"with the same error: {self._errors[0]}; the rest of the budget is kept: correct that, then start "
                f"another study, or go on with `hpo resume` (--allow-changes where the code has changed)"
            )
