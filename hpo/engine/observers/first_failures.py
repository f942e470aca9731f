"""Watches whether the first trials of a run all fail with the same error, so that nothing is gained by more of them."""

from hpo.engine.observers.observer import Observer
from hpo.engine.trials.trial import Trial
from hpo.errors import StudyError

_LEAST = 3  # trials; fewer alike may be chance


class FirstFailures(Observer):
    """Holds the errors of the trials that have ended in this run, until one of them is another.

    Args:
        lanes: trials that are planned to be under way at once, and so begun before anything is known of any.
    """

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
