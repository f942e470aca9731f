"""User actions on a running search, from requests of other processes and from Optuna's `enqueue_trial`."""

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
    """Yields the requested user actions. Answers each request after its actions have taken effect.

    Attributes:
        study: the study with its current budget, which users may have raised.
    """

    seconds_between = 1.0
    """The time in seconds after which a running search calls this object again."""

    def __init__(self, study: PreparedStudy, record: Record) -> None:
        self.study = study
        self._record = record

    def __call__(self, can_stop_trials: bool) -> Iterator[UserAction]:
        """Yield the newly requested actions. If `can_stop_trials` is False, requests to stop a trial keep waiting."""
        for add in queued_points(self.study, self._record):
            yield UserAction(add)
        for pending in pending_requests(self.study.folder):
            if not can_stop_trials and pending.request.do == "stop" and pending.request.given.get("trial") is not None:
                continue
            try:
                actions, answer = self._read(pending.request.do, pending.request.given)
            except HpoError as error:
                pending.answer(str(error), is_done=False)
                continue
            for action in actions:
                yield UserAction(action, pending.request.by)
            if pending.request.do == "raise":
                # Write the configuration after the record: a driver that dies in between keeps the smaller budget.
                freeze(self.study)
            pending.answer(answer)

    def _read(self, verb: str, given: Mapping[str, Any]) -> tuple[Sequence[Add | Stop | Raise], str]:
        """Return the actions of a request, and the answer to its sender. Raise HpoError if the request is refused."""
        if verb == "add":
            add = new_point(self.study, self._record, given)
            return [add], added_text(add)
        if verb == "retry":
            adds = retries(self._record, given.get("trial"))
            return adds, retried_text(adds)
        if verb == "raise":
            budget = Raise(given.get("trials"), given.get("minutes"))
            self.study = replace(self.study, config=_raise_budget(self.study.config, budget))
            return [budget], f"the budget is raised; {self.study.done(self._record.history())} are done"
        number = given.get("trial")
        if number is None:
            return [Stop()], "no further trial begins, and the search ends when the running trials have ended"
        stopped = {action.trial for action in self._record.actions}
        # A trial that a user stopped may still be running in the record, because it ends later on the clock.
        states = {t.number: "stopped" if t.number in stopped else t.state for t in self._record.trials()}
        if states.get(number) != "running":
            running = ", ".join(str(each) for each, state in states.items() if state == "running") or "none"
            why = f"has already ended ({states[number]})" if number in states else "does not exist"
            raise StudyError(f"trial: trial {number} {why}; the running trials are: {running}")
        return [Stop(number)], f"trial {number} stops now"


def _raise_budget(config: StudyConfig, budget: Raise) -> StudyConfig:
    """Return the configuration with the new budget. Raise StudyError if the old budget is larger or unlimited."""
    given = {name: value for name, value in vars(budget).items() if value is not None}
    for name, value in given.items():
        before = getattr(config.study, name)
        # Without a limit so far (None), any limit would be a smaller budget.
        if before is None or value < before:
            rule = "must stay null (no limit)" if before is None else f"must be at least {before:g}"
            raise StudyError(f"study.{name}: {rule}, given {value:g}; a running search accepts only a larger budget")
    return config.with_study(**given)
