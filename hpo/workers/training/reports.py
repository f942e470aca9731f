"""The reports of one training: the reports from before an interruption, and the new reports."""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hpo.trials.places import Places, Point, place_of
from hpo.workers.objective.plain_function import StateIsAhead
from hpo.workers.training.journal import Entry, Journal
from hpo.workers.training.tasks import Payload


class Reports:
    """Decides whether each report of a training is new, and holds the points of the learning curve.

    The place of a report is its epoch or step. A report is new if its place is beyond the amount from which the trial
    continues, and beyond all reports of an interrupted attempt. Any other report repeats a known report, and is
    compared with it.

    An attempt may die after it has saved its state but before it reports. The next attempt continues from the saved
    state, so one report would be missing. So the class raises `StateIsAhead` in the next attempt in two cases:

    - The state may be newer than the last report, and the next report leaves a gap or does not come.
    - The next report has neither epoch nor step, so it is unknown to which report the state belongs.

    If the objective has set `reports_again` (see `Objective`), the class never raises `StateIsAhead`.

    Attributes:
        trained: the amount of training before the first attempt of this trial; 0 after `start_again`.
        was_interrupted: whether an attempt of this trial was interrupted. The attempt may have saved a state with more
            training than `trained`. If the objective has set `reports_again`, always False.
        points: the learning curve of this trial and of the trials that it continues, in ascending order.
        metrics: names of the study's metrics.
        named: names of all values in the reports, whether the values were finite numbers or not.
        gaps: metrics whose value in the last report was not a finite number.
        differs: a text about the first report that differs from the known report; None = no report differs.
    """

    def __init__(self, payload: Payload, journal: Journal | None, reports_again: bool = False) -> None:
        self._payload, self._journal, self._reports_again = payload, journal, reports_again
        self.differs: str | None = None
        self.trained, self._is_suspect, self.was_interrupted = payload.trained, False, False
        self.metrics = (payload.metric, *payload.metrics[1:])
        self.named: set[str] = set()
        self.gaps: Sequence[str] = ()
        self._known_entries: Sequence[Entry] = ()
        # The last place that the continued trials reported. If they reported nothing, use the trained amount instead.
        self._before = place_of(payload.earlier[-1]) if payload.earlier else payload.trained or -1
        if journal is not None and journal.has_state:
            self.was_interrupted = not journal.is_whole and not reports_again
            # If the state has not changed since the last report, no report is missing.
            last = journal.entries[-1].state if journal.entries else None
            self._is_suspect = self.was_interrupted and (last is None or last != journal.state())
            self._known_entries = journal.after(self._before)
            journal.begin()
        elif journal is not None:
            journal.restart(self._before)
        self._begin()

    @classmethod
    def of(cls, payload: Payload, reports_again: bool, is_first: bool) -> "Reports":
        """Return the reports for a task. In a group of processes, only the first process uses the journal."""
        has_journal = payload.resume_dir is not None and payload.test is None and is_first
        return cls(payload, Journal(Path(str(payload.resume_dir))) if has_journal else None, reports_again)

    def _begin(self) -> None:
        self.points: list[Point] = [*self._payload.earlier, *(entry.point for entry in self._known_entries)]
        self._known = {place_of(point): point for point in self.points}
        self._last = max(self._known, default=self._before)
        self._num_taken, self._unsent = 0, self._known_entries
        self.begin_run()

    def begin_run(self) -> None:
        """Prepare for a run of the objective. The run may repeat reports of an earlier run."""
        counted = max(self._payload.trained, self._before if self._reports_again else self._last)
        # If a training starts again from the beginning, it repeats the reports of the trials that it continues.
        has_started_again = self.trained < self._payload.trained
        self._places = Places(counted, [place_of(p) for p in self._payload.earlier] if has_started_again else ())

    def start_again(self) -> None:
        """Start the training from the beginning: drop the state, and all reports that this trial has made so far."""
        assert self._journal is not None
        self._journal.restart(self._before)
        self._is_suspect = self.was_interrupted = False
        self._known_entries, self.trained = (), 0
        self._begin()

    def take(self, point: Point) -> dict[str, Any] | None:
        """Return the report `point`, with its place as `epoch` or `step`; None = the report repeats a known report.

        Raises:
            ValueError: the place is negative.
            ValueError: the place is not above the place of the previous report.
            ValueError: this report has another kind of place than the previous report (epoch, step or neither).
            StateIsAhead: a report before this report may be missing.
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
        """Add a new report to the learning curve and to the journal; call this before the driver gets the report.

        Args:
            point: the result of `take`.
            units: the units of training since the previous report.
            more: whether the training continues after this report; None = unknown.
        """
        self.points.append(point)
        self._last = place_of(point)
        self._known[self._last] = point
        if self._journal is not None:
            self._journal.add(Entry(point, units, more, self._journal.state()))

    def end(self, has_result: bool) -> None:
        """End the reports. `has_result` says whether the objective returned a result.

        Raises:
            StateIsAhead: this attempt has made no report, and a report of an earlier attempt may be missing. The
                earlier attempt may have died after it saved a state and before it made the report for this state.
        """
        was_last = bool(self._known_entries) and self._known_entries[-1].more is False
        if self._is_suspect and not self._num_taken and not was_last and (self._known_entries or not has_result):
            raise StateIsAhead
        if self._journal is not None:
            self._journal.end()

    def take_known(self) -> Sequence[Entry]:
        """Return the reports of an interrupted attempt; a later call returns nothing."""
        entries, self._unsent = self._unsent, ()
        return entries

    def close(self) -> None:
        """Close the journal, if there is one."""
        if self._journal is not None:
            self._journal.close()

    def _refuse_gap(self, place: float) -> None:
        """Raise StateIsAhead if a report may be missing before the attempt's first report, whose place is `place`."""
        if not self.was_interrupted or (not self._is_suspect and self._places.kind != "number"):
            return
        places = sorted(self._known)
        # If no report is known, the first report is expected at 0.
        last = places[-1] if places else -1
        least = min((after - before for before, after in itertools.pairwise(places)), default=1)
        if self._places.kind == "number" or place > last + least:
            raise StateIsAhead

    def _compare(self, place: float, point: Point) -> None:
        known = self._known.get(place, {})
        for name in self.metrics:
            if self.differs is None and name in known and name in point and known[name] != point[name]:
                self.differs = f"{name} at {place:g} was {known[name]!r} and is now {point[name]!r}"
