"""The points that other programs queue in a study's record, such as Optuna's `enqueue_trial`."""

import logging

from hpo.config.keys import flatten
from hpo.engine.record.record import Record
from hpo.engine.space.first_points import read_point
from hpo.engine.space.space import Point, point_key
from hpo.errors import SpaceError
from hpo.study.notes import Notes
from hpo.study.study import Study

_log = logging.getLogger(__name__)


def queued_points(study: Study, record: Record) -> list[Point]:
    """Return the points that were queued since the last call, completed as in `space.first`; others are told."""
    points: dict[str, Point] = {}
    known = {trial.key: f"trial {trial.number}" for trial in record.trials()}
    imported = {trial.key: "an imported trial" for trial in Notes(record).imports}
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
        if key in known or key in imported:
            _log.warning("%s is %s already, and is left alone", where, known.get(key) or imported[key])
            continue
        points[key] = point
        _log.warning("%s is tried next, as far as the budget goes: %s", where, dict(point))
    return list(points.values())
