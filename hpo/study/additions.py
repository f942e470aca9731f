"""Points that hands add to a study: those that other programs have queued in its record, and one that is asked for."""

import logging
from collections.abc import Mapping
from typing import Any

from hpo.config.keys import flatten
from hpo.config.sections import StudySection
from hpo.errors import SpaceError, StudyError
from hpo.study.notes import Notes
from hpo.study.study import PreparedStudy
from hpo.trials.record.record import Record
from hpo.trials.space.first_points import read_point
from hpo.trials.space.space import Point, point_key, short_text

_log = logging.getLogger(__name__)


def queued_points(study: PreparedStudy, record: Record) -> list[Point]:
    """Return the new points that other programs have queued, as by Optuna's `enqueue_trial`; what is none is told."""
    points: dict[str, Point] = {}
    taken = {point_key(given.point) for given in record.given}
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
        if (known := _known_as(key, record)) is not None:
            _log.warning("%s is %s already, and is left alone", where, known)
            continue
        points[key] = point
        _log.warning("%s is tried next, as far as the budget goes: %s", where, dict(point))
    return list(points.values())


def new_point(study: PreparedStudy, record: Record, values: Mapping[str, Any]) -> Point:
    """Return a point that somebody adds; what it leaves out has its default. HpoError where it is none, or known."""
    point = read_point("the point", values, study.space, flatten(study.config.objective_config))
    known = _known_as(point_key(point), record)
    if known is None and any(point_key(given.point) == point_key(point) for given in record.given):
        known = "added"
    if known is not None:
        raise StudyError(f"the point: {short_text(point)} is {known} already; give another")
    return point


def untried_points(record: Record) -> list[Point]:
    """Return the points that hands gave and no trial has, in the order in which they are tried."""
    tried = {trial.key for trial in record.trials()}
    return [given.point for given in record.given if point_key(given.point) not in tried]


def what_tries(name: str, untried: int, done: int, budget: StudySection, ended_by: str | None) -> str:
    """Return the command with which a search that has ended, or was interrupted, tries so many points.

    `name` is the study's, `done` how much of the budget is used.
    """
    larger: dict[str, Any] = {}
    if done >= budget.trials:
        larger["trials"] = done + untried
    if ended_by == "minutes" and budget.minutes is not None:
        larger["minutes"] = 2 * budget.minutes
    if ended_by == "stop_without_gain" and budget.stop_without_gain is not None:
        larger["stop_without_gain"] = 2 * budget.stop_without_gain
    return " ".join([f"hpo resume {name}", *(f"study.{key}={value:g}" for key, value in larger.items())])


def _known_as(key: str, record: Record) -> str | None:
    """Return which trial has a point of this key, in words; None where none has."""
    own = (f"trial {trial.number}" for trial in record.trials() if trial.key == key)
    return next(own, "an imported trial" if any(trial.key == key for trial in Notes(record).imports) else None)
