"""What users request of a search that runs: by requests of other processes, and by Optuna's `enqueue_trial`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from hpo.config.study_config import StudyConfig
from hpo.errors import HpoError, StudyError
from hpo.study.additions import added_text, new_point, queued_points, retried_text, retries
from hpo.study.files.requests import pending_requests
from hpo.study.opening import freeze
from hpo.study.study import PreparedStudy
from hpo.trials.record.record import Record
from hpo.trials.record.user_actions import Add, Raise, Stop, UserAction


class UserRequests:
    """Yields what is asked of a study's search, and answers who asked once it has taken effect.

    Attributes:
        study: the study, with the budget that it was raised to.
    """

    seconds_between = 1.0
    """Between two looks while the search runs."""

    def __init__(self, study: PreparedStudy, record: Record) -> None:
        self.study = study
        self._record = record

    def __call__(self, can_stop_trials: bool) -> Iterator[UserAction]:
        """Yield what was asked since the last call; to stop a trial waits until that can be done."""
        for add in queued_points(self.study, self._record):
            yield UserAction(add)
        for pending in pending_requests(self.study.folder):
            if not can_stop_trials and pending.request.do == "stop" and pending.request.given.get("trial") is not None:
                continue
            try:
                asks, says = self._read(pending.request.do, pending.request.given)
            except HpoError as error:
                pending.answer(str(error), is_done=False)
                continue
            for ask in asks:
                yield UserAction(ask, pending.request.by)
            if pending.request.do == "raise":
                # After the record: a driver that dies between them goes on with the smaller budget.
                freeze(self.study)
            pending.answer(says)

    def _read(self, verb: str, given: Mapping[str, Any]) -> tuple[Sequence[Add | Stop | Raise], str]:
        """Return what is asked, and what is answered then; HpoError where it cannot be done."""
        if verb == "add":
            add = new_point(self.study, self._record, given)
            return [add], added_text(add)
        if verb == "retry":
            adds = retries(self._record, given.get("trial"))
            return adds, retried_text(adds)
        if verb == "raise":
            ask = Raise(given.get("trials"), given.get("minutes"))
            self.study = replace(self.study, config=_raised(self.study.config, ask))
            return [ask], f"the search goes on; {self.study.done(self._record.history())} are done"
        number = given.get("trial")
        if number is None:
            return [Stop()], "it begins no further trial, and ends when those that run have ended"
        stopped = {act.trial for act in self._record.actions}
        # One that was stopped may end later on the clock.
        states = {t.number: "stopped" if t.number in stopped else t.state for t in self._record.trials()}
        if states.get(number) != "running":
            running = ", ".join(str(each) for each, state in states.items() if state == "running") or "none"
            is_there = f"has ended already ({states[number]})" if number in states else "is not there"
            raise StudyError(f"--trial: trial {number} {is_there}; give one that runs ({running})")
        return [Stop(number)], f"trial {number} is stopped where it is"


def _raised(config: StudyConfig, budget: Raise) -> StudyConfig:
    """Return the configuration with a larger budget; StudyError where it is smaller than before."""
    given = {name: value for name, value in vars(budget).items() if value is not None}
    for name, value in given.items():
        before = getattr(config.study, name)
        # Without a limit before, any is a smaller budget.
        if before is None or value < before:
            least = "has no limit" if before is None else f"is {before:g}"
            raise StudyError(f"study.{name}: {least}, given {value:g}; a running search takes a larger budget alone")
    return config.model_copy(update={"study": config.study.model_copy(update=given)})
