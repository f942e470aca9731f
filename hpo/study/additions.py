"""Points that users add to a study: by `hpo add`, by `hpo retry`, or with another program that queues trials."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from hpo.config.keys import flatten
from hpo.config.sections import StudySection
from hpo.errors import SpaceError, StudyError
from hpo.study.notes import Notes
from hpo.study.study import PreparedStudy
from hpo.trials.record.record import Record
from hpo.trials.record.user_actions import Add, AddedPoint
from hpo.trials.space.first_points import read_point
from hpo.trials.space.space import Point, point_key, short_text
from hpo.trials.trial import Trial

_log = logging.getLogger(__name__)


def queued_points(study: PreparedStudy, record: Record) -> list[Add]:
    """Return the new points that other programs queued, for example with `enqueue_trial`.

    Log a warning for each returned point.

    If a point is invalid, log a warning, and ignore the point. If a point already has a trial, do the same, unless this
    trial failed (see `_add_of`). If a point was added to the study before, ignore the point without a warning.
    """
    points: dict[str, Add] = {}
    added = {point_key(each.point) for each in record.added}
    for number, parameters in record.queued():
        where = f"record: the point that another program queued as Optuna's trial {number}"
        try:
            point = read_point(where, parameters, study.space, flatten(study.config.objective_config))
        except SpaceError as error:
            _log.warning("%s; this point is ignored", error)
            continue
        key = point_key(point)
        if key in added:
            continue
        add = _add_of(point, record)
        if isinstance(add, str):
            _log.warning("%s is already %s; this point is ignored", where, add)
            continue
        points[key] = add
        _log.warning("%s will be the next new trial if the budget allows: %s", where, dict(point))
    return list(points.values())


def new_point(study: PreparedStudy, record: Record, values: Mapping[str, Any]) -> Add:
    """Return the point with these values as an `Add`; missing keys get their defaults.

    If the point's last trial failed, the `Add` is a retry of that trial.

    Raises:
        HpoError: the point is invalid, or is already in the study and needs no retry.
    """
    point = read_point("the point", values, study.space, flatten(study.config.objective_config))
    add = _add_of(point, record)
    if isinstance(add, str):
        raise StudyError(f"the point: {short_text(point)} is already {add}; give another point")
    return add


def added_text(add: Add) -> str:
    """Return the text that tells a user what happens to an added point."""
    if add.retry_of is None:
        return f"{short_text(add.point)} will be the next new trial if the budget allows"
    return f"{short_text(add.point)} will be the next new trial, as {retried_text([add])}"


def failed_trials(record: Record) -> list[Trial]:
    """Return the failed trials for which no retry was added."""
    retried = {each.retry_of for each in record.added}
    return [trial for trial in record.trials() if trial.state == "failed" and trial.number not in retried]


def retries(record: Record, number: int | None) -> list[Add]:
    """Return a retry of trial `number`. If `number` is None, return a retry of each trial in `failed_trials`.

    Raises:
        StudyError: there is nothing to retry, or trial `number` is not in `failed_trials`.
    """
    failed = {trial.number: trial for trial in failed_trials(record)}
    if number is None:
        if not failed:
            raise StudyError("there is nothing to retry: no trial failed, or every failed trial was already retried")
    elif number not in failed:
        states = {trial.number: trial.state for trial in record.trials()}
        why = "does not exist" if number not in states else f"is {states[number]}"
        if states.get(number) == "failed":
            why = "was already retried"
        allowed = ", ".join(map(str, failed)) or "none"
        raise StudyError(f"trial: trial {number} {why}; give a failed trial that has no retry ({allowed})")
    picked = failed.values() if number is None else [failed[number]]
    return [Add(trial.point, trial.number) for trial in picked]


def retried_text(adds: Sequence[Add]) -> str:
    """Return the text that tells a user about retries, such as `a retry of trial 3 (a retry uses no budget)`."""
    numbers = ", ".join(str(add.retry_of) for add in adds)
    retried = f"a retry of trial {numbers}" if len(adds) == 1 else f"retries of trials {numbers}"
    return f"{retried} (a retry uses no budget)"


def untried_points(record: Record) -> list[AddedPoint]:
    """Return the points that users added and that have no trial yet, in the order in which they will be tried."""
    trials = record.trials()
    tried, retried = {trial.key for trial in trials}, {trial.retry_of for trial in trials}
    return [
        each
        for each in record.added
        if (point_key(each.point) not in tried if each.retry_of is None else each.retry_of not in retried)
    ]


def resume_command(name: str, untried: int, done: int, budget: StudySection, ended_by: str | None) -> str:
    """Return the command that continues a search, with a budget that is large enough for the untried points.

    Args:
        untried: the number of added points without a trial; retries do not count, because they use no budget.
        done: how much of the budget is used.
        budget: the section with the search's budgets.
        ended_by: the budget or rule that ended the search; None if the search was interrupted.
    """
    larger: dict[str, Any] = {}
    if ended_by == "callback":
        larger["trials"] = max(done + untried, budget.trials + 1)
    elif untried and done >= budget.trials:
        larger["trials"] = done + untried
    if ended_by == "minutes" and budget.minutes is not None:
        larger["minutes"] = 2 * budget.minutes
    if ended_by == "stop_without_gain" and budget.stop_without_gain is not None:
        larger["stop_without_gain"] = 2 * budget.stop_without_gain
    words = [f"study.{key}={value:.15g}" for key, value in larger.items()]
    return " ".join([f"hpo resume {name}", *words, *(["study.target=null"] if ended_by == "target" else [])])


def _add_of(point: Point, record: Record) -> Add | str:
    """Return an `Add` if the point is new, or if the last trial of the point failed.

    Otherwise return a text that says what the study has for this point: `added`, a trial's number such as `trial 3`, or
    `an imported trial`.
    """
    key = point_key(point)
    own = [trial for trial in record.trials() if trial.key == key]
    if any(point_key(each.point) == key for each in untried_points(record)):
        return "added"
    if own and own[-1].state == "failed":
        return Add(point, own[-1].number)
    if own:
        return f"trial {own[0].number}"
    return "an imported trial" if any(trial.key == key for trial in Notes(record).imports) else Add(point)
