"""The reports of one training: what is known of it from before an interruption, and what it reports now."""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hpo.trials.places import Places, Point, place_of
from hpo.workers.training.journal import Entry, Journal
from hpo.workers.training.tasks import Payload


class StateIsAhead(Exception):  # noqa: N818 -- no fault: the training starts again
    """The state from which an attempt goes on may hold more than was reported: its writer died before the report."""


class Reports:
    """Says of each report of a training whether it is new, and keeps those that count for the score.

    New is what lies beyond the amount that the trial continues from, and beyond what an attempt that was interrupted
    had reported. All else is known: it was reported before, and is compared.

    An attempt that goes on from the state of an interrupted one may miss a report: that died after it had saved its
    state and before it could report. Then the state is another one than at the last report, and the first report comes
    later than the places before let expect, or there is none. Where reports name no places, nobody knows where a state
    is. Then `StateIsAhead` is raised; not for an objective that `reports_again`, see `Objective`.

    Attributes:
        trained: the amount from which this attempt goes on; the objective gets it.
        points: of the whole training, of the trials that it continues and of this one, in the order of their places.
        metrics: those of the study.
        named: what was reported, finite numbers or not.
        differs: the first report that differs from what is known, in words; None where none does.
    """

    def __init__(self, payload: Payload, journal: Journal | None, reports_again: bool = False) -> None:
        self._payload, self._journal, self._reports_again = payload, journal, reports_again
        self.differs: str | None = None
        self.trained, self._is_suspect, self._was_interrupted = payload.trained, False, False
        self.metrics = (payload.metric, *payload.metrics[1:])
        self.named: set[str] = set()
        self._known_entries: Sequence[Entry] = ()
        # The last place of what the trial continues; where that has reported nothing, it is taken at its word.
        self._before = place_of(payload.earlier[-1]) if payload.earlier else payload.trained or -1
        if journal is not None and journal.has_state:
            self._was_interrupted = not journal.is_whole and not reports_again
            # One that is as it was at the last report is not ahead of it.
            last = journal.entries[-1].state if journal.entries else None
            self._is_suspect = self._was_interrupted and (last is None or last != journal.state())
            self._known_entries = journal.after(self._before)
            journal.begin()
        elif journal is not None:
            journal.begin_anew(self._before)
        self._begin()

    @classmethod
    def of(cls, payload: Payload, reports_again: bool, is_first: bool) -> "Reports":
        """Return those of a payload; of processes that train together the first writes the journal."""
        has_journal = payload.resume_dir is not None and payload.test is None and is_first
        return cls(payload, Journal(Path(str(payload.resume_dir))) if has_journal else None, reports_again)

    def _begin(self) -> None:
        self.points: list[Point] = [*self._payload.earlier, *(entry.point for entry in self._known_entries)]
        self._known = {place_of(point): point for point in self.points}
        self._last = max(self._known, default=self._before)
        self._num_taken, self._unsaid = 0, self._known_entries
        self.begin_run()

    def begin_run(self) -> None:
        """Begin a run of the objective, which may report again what one before has reported."""
        counted = max(self._payload.trained, self._before if self._reports_again else self._last)
        # One that starts again makes the reports of the trials that it continues once more.
        has_started_again = self.trained < self._payload.trained
        self._places = Places(counted, [place_of(p) for p in self._payload.earlier] if has_started_again else ())

    def start_again(self) -> None:
        """Begin the training from its start: the state is dropped, and what was reported since it was continued."""
        assert self._journal is not None
        self._journal.begin_anew(self._before)
        self._is_suspect = self._was_interrupted = False
        self._known_entries, self.trained = (), 0
        self._begin()

    def take(self, point: Point) -> dict[str, Any] | None:
        """Return the next report with its place; None where it is known.

        Raises:
            ValueError: its place does not follow that of the report before.
            StateIsAhead: see the class.
        """
        point = self._places.take(point)
        place = place_of(point)
        self._num_taken += 1
        if self._num_taken == 1:
            self._refuse_gap(place)
        if place > self._last:
            return point
        self._compare(place, point)
        return None

    def add(self, point: Point, units: float, more: bool | None) -> None:
        """Keep a new report, which took so many units of training: in the journal, before anybody hears of it."""
        self.points.append(point)
        self._last = place_of(point)
        self._known[self._last] = point
        if self._journal is not None:
            self._journal.add(Entry(point, units, more, self._journal.state()))

    def end(self, has_result: bool) -> None:
        """Take the end of the training, and whether it returned anything; StateIsAhead as above."""
        was_last = bool(self._known_entries) and self._known_entries[-1].more is False
        if self._is_suspect and not self._num_taken and not was_last and (self._known_entries or not has_result):
            raise StateIsAhead
        if self._journal is not None:
            self._journal.end()

    @property
    def has_known(self) -> bool:
        """Whether `take_known` returns any."""
        return bool(self._unsaid)

    def take_known(self) -> Sequence[Entry]:
        """Return the reports of this trial that an interrupted attempt had made, at the first call."""
        entries, self._unsaid = self._unsaid, ()
        return entries

    def close(self) -> None:
        """Close the journal."""
        if self._journal is not None:
            self._journal.close()

    def _refuse_gap(self, place: float) -> None:
        """Raise StateIsAhead where a report between the last known one and this, the first, may be missing."""
        if not self._was_interrupted or (not self._is_suspect and self._places.kind != "number"):
            return
        places = sorted(self._known)
        # Where nothing is known the first one is at 0, or it may be missing.
        last = places[-1] if places else -1
        least = min((after - before for before, after in itertools.pairwise(places)), default=1)
        if self._places.kind == "number" or place > last + least:
            raise StateIsAhead

    def _compare(self, place: float, point: Point) -> None:
        known = self._known.get(place, {})
        for name in self.metrics:
            if self.differs is None and name in known and name in point and known[name] != point[name]:
                self.differs = f"{name} at {place:g} was {known[name]!r}, and is {point[name]!r} now"
