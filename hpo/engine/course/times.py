"""When each task of a search began and ended on the study's clock, from its record alone."""

from collections.abc import Mapping
from dataclasses import replace

from hpo.engine.course.clock import Key
from hpo.engine.course.course import Course
from hpo.engine.course.rules import Rules
from hpo.engine.record.record import Record

Span = tuple[float, float]


def clock_times(rules: Rules, record: Record) -> Mapping[Key, Span]:
    """Return begin and end of every task that has ended on the clock, in units of cost; empty where none waits."""
    if not rules.waits:
        return {}
    # Nothing is asked, neither the strategy nor the objective.
    recorded = replace(rules, cost_of=lambda trial: trial.cost or 1.0, counts="trials")
    course = Course(recorded, record.copy(), len(record.trials()))
    for _ in course.advance():
        pass
    return {event.key: (course.begun[event.key], event.time) for event in course.events if event.is_end}
