"""The free order: things happen when they become known."""

from collections import deque

from hpo.engine.course.clock import Event, Key


class Arrival:
    """Has the calls of `Clock`, and passes on at once what it is told: nothing waits, and workers decide what is known.

    Attributes:
        now: the number of events so far.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self._running: dict[Key, float] = {}
        self._events: deque[tuple[Key, float, bool]] = deque()

    @property
    def num_running(self) -> int:
        """The number of tasks that have begun and not ended."""
        return len(self._running)

    def begin(self, key: Key, unit: float) -> None:  # noqa: ARG002 -- the same call as the clock's
        """Begin a task."""
        self._running[key] = 0.0

    def report(self, key: Key, units: float, goes_on: bool = False) -> None:  # noqa: ARG002 -- as above
        """Take a report of a running task after so many units; a repeated one changes nothing."""
        if units > self._running.get(key, units):
            self._running[key] = units
            self._events.append((key, units, False))

    def end(self, key: Key, units: float) -> None:
        """Take the end of a task after so many units."""
        if key in self._running:
            self._events.append((key, units, True))

    def latest(self, key: Key) -> float:
        """Return the units that a running task has reported."""
        return self._running[key]

    def advance(self) -> Event | None:
        """Return the next event in the order of arrival, or None."""
        if not self._events:
            return None
        key, units, is_end = self._events.popleft()
        if is_end:
            del self._running[key]
        self.now += 1
        return Event(self.now, key, units, is_end)
