"""The loop: lets workers train the tasks that begin on the clock, and the clock know what they report."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace

from hpo.engine.course.clock import Key
from hpo.engine.course.course import Course
from hpo.engine.course.rules import Rules
from hpo.engine.dispatch.dispatcher import Dispatcher
from hpo.engine.observers import FirstFailures, Observer
from hpo.engine.record.record import Ended, Record
from hpo.engine.space.space import Point
from hpo.engine.trials.history import History
from hpo.engine.trials.trial import seconds_trained

# Seconds between two notes of the time while a search runs, and between two looks for points that a hand gave.
_SECONDS_BETWEEN_NOTES = 10.0
_SECONDS_BETWEEN_LOOKS = 1.0


def search(
    rules: Rules,
    record: Record,
    dispatcher: Dispatcher,
    num_trials: int,
    observers: Sequence[Observer] = (),
    minutes: float | None = None,
    gives_up: bool = False,
    given: Callable[[], Sequence[Point]] = tuple,
) -> History:
    """Run a search until a budget is reached, and return all its trials in the order of their numbers.

    Workers take tasks in the order in which the clock began them. What they report is known to the strategy when the
    clock has reached it, so that the trials do not depend on the workers. The record notes which budget was reached.

    Args:
        rules: what determines the search.
        record: holds what has happened so far; everything is written to it.
        dispatcher, observers: run the tasks, are notified of events.
        num_trials: the budget, of what `Rules.counts` says.
        minutes: no trial is begun after so many, earlier runs included; it cuts the trials, and changes none.
        gives_up: whether it stops where the first trials of this run all fail with the same error, and budget is left.
        given: returns the points, untried and of the space, that a hand has given since the last call.

    Raises:
        StudyError: the strategy no longer proposes what the record holds, or the search gives up.
    """
    if _stays_ended(rules, record):
        return record.history()
    first = FirstFailures(rules.lanes)
    course = Course(rules, record, num_trials, dispatcher.slots, [*observers, first])
    began, before = dispatcher.now, seconds_spent(record)
    noted, looked = before, 0.0
    if record.ended:
        # Not ended any more, if there is more to do.
        record.ended = Ended(None, before, rules.stop_without_gain)
    waiting: deque[Key] = deque()
    in_flight: set[Key] = set()
    while True:
        seconds = before + dispatcher.now - began
        course.is_out_of_time = minutes is not None and seconds >= 60 * minutes
        if seconds >= noted + _SECONDS_BETWEEN_NOTES:
            record.ended = Ended(None, seconds, rules.stop_without_gain)
            noted = seconds
        if seconds >= looked:
            course.give(given())
            looked = seconds + _SECONDS_BETWEEN_LOOKS
        waiting.extend(course.advance())
        if gives_up and (waiting or in_flight):
            first.refuse_more()
        while waiting and len(in_flight) < dispatcher.slots:
            record.begin_stretch(dispatcher.slots)
            key = waiting.popleft()
            task = course.task(key)
            dispatcher.submit(task)
            in_flight.add(key)
            for observer in observers:
                observer.task_begun(task)
        if not in_flight:
            late = given()
            if late:
                course.give(late)
                continue
            record.ended = Ended(course.ended_by, seconds, rules.stop_without_gain)
            return record.history()
        for report in dispatcher.wait():
            key = Key(report.task.trial, report.task.index)
            # A late or repeated report of a task with an outcome changes nothing.
            if key in in_flight:
                course.take(report)
                in_flight -= {key} if report.outcome is not None else set()


def is_over(rules: Rules, record: Record, num_trials: int, minutes: float | None = None) -> bool:
    """Return whether nothing is left to run: every trial is finished, and a budget or the space is exhausted."""
    if _stays_ended(rules, record):
        return True
    # What a trial would cost makes no difference here, and an objective may need its data to say it.
    course = Course(replace(rules, cost_of=lambda trial: trial.cost or 1.0), record.copy(), num_trials)
    course.is_out_of_time = minutes is not None and seconds_spent(record) >= 60 * minutes
    return next(course.advance(), None) is None


def seconds_spent(record: Record) -> float:
    """Return how long the search has taken so far, interruptions left out."""
    # Without a note it was interrupted in its first seconds, or made when only a search limited by time noted it.
    return float(record.ended.seconds) if record.ended else seconds_trained(record.trials())


def _stays_ended(rules: Rules, record: Record) -> bool:
    """Return whether a search of free order has ended without gain: what was known then is not known again."""
    ended, limit = record.ended, rules.stop_without_gain
    if rules.order != "free" or limit is None or not ended or ended.by != "stop_without_gain":
        return False
    return limit <= (ended.limit or 0) and all(trial.state != "running" for trial in record.trials())
