"""The two orders of a search's events: by time on the study's clock, or by arrival (the free order)."""

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple


class Key(NamedTuple):
    """The identity of a task: the trial's number, and the task's index in that trial. Tasks begin in key order."""

    trial: int
    task: int


class Event(NamedTuple):
    """A task's report or end: at `time` on the clock, the task `key` has trained `units` units in total.

    `is_end` says whether the task ends at this event. Events are sorted by `time`, then `key`, then `units`, then
    `is_end`.
    """

    time: float
    key: Key
    units: float
    is_end: bool


@dataclass
class _Running:
    """A task on the clock.

    Attributes:
        start: the time on the clock at which the task began.
        unit: the cost of one unit.
        reported: the units of each arrived report that the clock has not reached yet.
        reached: the units of the last report that the clock has reached.
        latest: the units of the last report that has arrived.
        goes_on: whether the task continues after the latest report.
        total: the units at the task's end; None = not known yet.
    """

    key: Key
    start: float
    unit: float
    reported: deque[float] = field(default_factory=deque)
    reached: float = 0.0
    latest: float = 0.0
    goes_on: bool = False
    total: float | None = None

    @property
    def next_time(self) -> float:
        """The time of the task's next event, or a lower bound of this time."""
        least = self.reached + 1 if self.total is None else self.total
        return self.start + (self.reported[0] if self.reported else least) * self.unit

    @property
    def is_known(self) -> bool:
        """Whether two facts are known: the time of the task's next event, and whether this event ends the task."""
        return self.total is not None or len(self.reported) > 1 or (bool(self.reported) and self.goes_on)


class Clock:
    """Puts events in an order that does not depend on their order of arrival; `now` is the time on the clock.

    The clock measures time as cost. A task consists of units of training that all cost the same. The duration of a task
    on the clock is (its number of units) * (the cost of one unit). Times depend only on costs and units, so times are
    the same for any number and speed of workers.

    A task has an event at each report and at its end; the end may be the same event as the last report. The first event
    of a task comes after at least one unit, and the events of a task are at least one unit apart. So after a report at
    u units, the task's next event is at u + 1 units or later. Because of this lower bound, the clock often knows the
    next event even if some tasks have not reported yet. If the events of two tasks have equal times, the event of the
    task with the lower key comes first.

    Source: conservative parallel discrete-event simulation with lookahead (Bryant 1977, "Simulation of packet
    communication architecture computer systems"; Chandy & Misra 1979, "Distributed simulation: a case study in design
    and verification of distributed programs").
    """

    def __init__(self) -> None:
        self.now = 0.0
        self._running: dict[Key, _Running] = {}

    @property
    def num_running(self) -> int:
        """The number of tasks that have begun, but whose end the clock has not reached yet."""
        return len(self._running)

    def begin(self, key: Key, unit: float) -> None:
        """Begin a task at the current time; `unit` is the cost of one unit of the task, above 0."""
        self._running[key] = _Running(key, self.now, unit)

    def report(self, key: Key, units: float, goes_on: bool = False) -> None:
        """Add a report that a running task made after `units` units; `goes_on` = the task continues afterwards."""
        task = self._running.get(key)
        if task is not None and task.total is None and units > task.latest:
            task.reported.append(units)
            task.latest, task.goes_on = units, goes_on

    def end(self, key: Key, units: float) -> None:
        """Add the end of a running task: the task ends after `units` units in total.

        If the task's last report has a larger number of units, the task ends at this report.
        """
        task = self._running.get(key)
        if task is not None and task.total is None:
            task.total = max(units, task.latest)

    def latest(self, key: Key) -> float:
        """Return how many units a task had trained at its latest report.

        Return 0 if the task has no report or is not running.
        """
        task = self._running.get(key)
        return 0.0 if task is None else task.latest

    def advance(self) -> Event | None:
        """Move to the next event and return it.

        Return None if no task is running. Also return None if the clock cannot tell yet which event is next. If the
        clock cannot tell yet whether the next event ends its task, return None as well.
        """
        task = min(self._running.values(), key=lambda running: (running.next_time, running.key), default=None)
        if task is None or not task.is_known:
            return None
        self.now = task.next_time
        if task.reported:
            task.reached = task.reported.popleft()
        else:
            assert task.total is not None
            task.reached = task.total
        is_end = not task.reported and task.reached == task.total
        if is_end:
            del self._running[task.key]
        return Event(self.now, task.key, task.reached, is_end)


class Arrival(Clock):
    """The clock for `order=free`: returns events in the order of arrival; `now` is the number of returned events."""

    def __init__(self) -> None:
        super().__init__()
        self._events: deque[tuple[Key, float, bool]] = deque()

    def report(self, key: Key, units: float, goes_on: bool = False) -> None:  # noqa: ARG002 -- the clock's
        """Add a report that a running task made after `units` units; a repeated report changes nothing."""
        task = self._running.get(key)
        if task is not None and units > task.latest:
            task.latest = units
            self._events.append((key, units, False))

    def end(self, key: Key, units: float) -> None:
        """Add the end of a running task, which took `units` units in total."""
        if key in self._running:
            self._events.append((key, units, True))

    def advance(self) -> Event | None:
        """Return the next event in the order of arrival; None if no event is left."""
        if not self._events:
            return None
        key, units, is_end = self._events.popleft()
        if is_end:
            del self._running[key]
        self.now += 1
        return Event(self.now, key, units, is_end)
