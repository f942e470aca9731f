"""The loop: lets workers train the tasks that begin on the clock, and the clock know what they report."""

from collections import deque
from collections.abc import Sequence

from hpo.engine.course.clock import Key
from hpo.engine.course.course import Course
from hpo.engine.course.rules import Rules
from hpo.engine.dispatch.dispatcher import Dispatcher
from hpo.engine.observer import Observer
from hpo.engine.record.record import Record
from hpo.engine.trials.history import History


def search(
    rules: Rules, record: Record, dispatcher: Dispatcher, num_trials: int, observers: Sequence[Observer] = ()
) -> History:
    """Run a search to its budget and return all its trials in the order of their numbers.

    Workers take tasks in the order in which the clock began them. What they report is known to the strategy when the
    clock has reached it, so that the trials do not depend on the workers.

    Args:
        rules: what determines the search.
        record: holds what has happened so far; everything is written to it.
        dispatcher: runs the tasks.
        num_trials: the budget.
        observers: are notified of events.

    Raises:
        StudyError: the strategy no longer proposes what the record holds.
    """
    course = Course(rules, record, num_trials, dispatcher.slots, observers)
    waiting: deque[Key] = deque()
    in_flight: set[Key] = set()
    while True:
        waiting.extend(course.advance())
        while waiting and len(in_flight) < dispatcher.slots:
            key = waiting.popleft()
            dispatcher.submit(course.task(key))
            in_flight.add(key)
        if not in_flight:
            return record.history()
        for report in dispatcher.wait():
            key = Key(report.task.trial, report.task.index)
            # A late or repeated report of a task with an outcome changes nothing.
            if key in in_flight:
                course.take(report)
                in_flight -= {key} if report.outcome is not None else set()


def is_over(rules: Rules, record: Record, num_trials: int) -> bool:
    """Return whether nothing is left to run: every trial is finished, and the budget or the space is exhausted."""
    return next(Course(rules, record.copy(), num_trials).advance(), None) is None
