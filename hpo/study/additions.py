"""Points that users add to a study: those that other programs have queued in its record, and one that is asked for."""

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
    """Return the new points that other programs have queued, as by Optuna's `enqueue_trial`; what is none is told."""
    points: dict[str, Add] = {}
    taken = {point_key(given.point) for given in record.added}
    for number, parameters in record.queued():
        where = f"record: what another program queued as Optuna's trial {number}"
        try:
            point = read_point(where, parameters, study.space, flatten(study.config.objective_config))
        except SpaceError as error:
            _log.warning("%s; it is left alone", error)
            continue
        key = point_key(point)
        if key in taken:
            continue
        add = _added(point, record)
        if isinstance(add, str):
            _log.warning("%s is %s already, and is left alone", where, add)
            continue
        points[key] = add
        _log.warning("%s is tried next, as far as the budget goes: %s", where, dict(point))
    return list(points.values())


def new_point(study: PreparedStudy, record: Record, values: Mapping[str, Any]) -> Add:
    """Return a point that somebody adds; what it leaves out has its default. HpoError where it is none, or known.

    The point of a failed trial is a retry of that trial.
    """
    point = read_point("the point", values, study.space, flatten(study.config.objective_config))
    add = _added(point, record)
    if isinstance(add, str):
        raise StudyError(f"the point: {short_text(point)} is {add} already; give another")
    return add


def added_text(add: Add) -> str:
    """Return what a search answers to an added point."""
    if add.retry_of is None:
        return f"it is tried next, as far as the budget goes: {short_text(add.point)}"
    return f"it is tried next, as {retried_text([add])}: {short_text(add.point)}"


def failed_trials(record: Record) -> list[Trial]:
    """Return the failed trials that nobody has retried, or asked to retry."""
    retried = {given.retry_of for given in record.added}
    return [trial for trial in record.trials() if trial.state == "failed" and trial.number not in retried]


def retries(record: Record, number: int | None) -> list[Add]:
    """Return a retry of a failed trial, of all where `number` is None; StudyError where there is none."""
    failed = {trial.number: trial for trial in failed_trials(record)}
    if number is None:
        if not failed:
            raise StudyError("no trial failed that was not retried; there is nothing to retry")
    elif number not in failed:
        states = {trial.number: trial.state for trial in record.trials()}
        why = "is not there" if number not in states else f"is {states[number]}"
        if states.get(number) == "failed":
            why = "is retried already"
        there = ", ".join(map(str, failed)) or "none"
        raise StudyError(f"--trial: trial {number} {why}; give one that failed and was not retried ({there})")
    picked = failed.values() if number is None else [failed[number]]
    return [Add(trial.point, trial.number) for trial in picked]


def retried_text(adds: Sequence[Add]) -> str:
    """Return what a search answers to retries: `a retry of trial 3, which uses no budget`."""
    numbers = ", ".join(str(add.retry_of) for add in adds)
    if len(adds) == 1:
        return f"a retry of trial {numbers}, which uses no budget"
    return f"{len(adds)} retries, which use no budget: of trials {numbers}"


def untried_points(record: Record) -> list[AddedPoint]:
    """Return the points that users gave and no trial has, in the order in which they are tried."""
    trials = record.trials()
    tried, retried = {trial.key for trial in trials}, {trial.retry_of for trial in trials}
    return [
        given
        for given in record.added
        if (point_key(given.point) not in tried if given.retry_of is None else given.retry_of not in retried)
    ]


def resume_command(name: str, untried: int, done: int, budget: StudySection, ended_by: str | None) -> str:
    """Return the command with which a search that has ended, or was interrupted, tries so many points, and retries.

    `name` is the study's, `done` how much of the budget is used; a retry uses none.
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
    words = [f"study.{key}={value:g}" for key, value in larger.items()]
    return " ".join([f"hpo resume {name}", *words, *(["study.target=null"] if ended_by == "target" else [])])


def _added(point: Point, record: Record) -> Add | str:
    """Return what adds the point: a retry, where its last trial failed; or how it is known already, in words."""
    key = point_key(point)
    own = [trial for trial in record.trials() if trial.key == key]
    if any(point_key(given.point) == key for given in untried_points(record)):
        return "added"
    if own and own[-1].state == "failed":
        return Add(point, own[-1].number)
    if own:
        return f"trial {own[0].number}"
    return "an imported trial" if any(trial.key == key for trial in Notes(record).imports) else Add(point)
