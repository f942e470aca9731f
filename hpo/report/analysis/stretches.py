"""The stretches in which a search ran: an interrupted one pauses until it is resumed, with other processes."""

import bisect
import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hpo.engine.record.record import Stretch
from hpo.engine.trials.trial import Outcome


@dataclass(frozen=True)
class StretchRun:
    """What ran in one stretch, in the order of the starts, and with how many workers, if the record says so."""

    outcomes: Sequence[Outcome]
    workers: int | None

    @property
    def started(self) -> float:
        """Start of the first task, in seconds since the epoch."""
        return self.outcomes[0].started

    @property
    def seconds(self) -> float:
        """From the first start to the last end."""
        return max(outcome.started + outcome.seconds for outcome in self.outcomes) - self.started

    @property
    def seen(self) -> int:
        """The largest number of workers that trained at the same time."""
        spans = worker_spans(self.outcomes).values()
        return max(sum(begun <= start < end for begun, end in spans) or 1 for start, _ in spans)


def stretch_runs(outcomes: Iterable[Outcome], stretches: Sequence[Stretch]) -> list[StretchRun]:
    """Return what ran in each stretch, in order; all of it in one where the record notes none.

    Outcomes of before the first note, and of simulated workers, whose clock begins at 0, are one stretch too.
    """
    ordered = sorted((outcome for outcome in outcomes if outcome.worker), key=lambda outcome: outcome.started)
    begins = [-math.inf]
    for stretch in stretches:
        ends = (outcome.started + outcome.seconds for outcome in ordered)
        last = max((end for end in ends if end <= stretch.start), default=-math.inf)
        # In the middle of the pause, since the clock of another machine may be behind.
        begins.append((last + stretch.start) / 2)
    workers = [None, *(stretch.workers for stretch in stretches)]
    split = itertools.groupby(ordered, key=lambda outcome: bisect.bisect_right(begins, outcome.started))
    return [StretchRun(list(those), workers[place - 1]) for place, those in split]


def worker_spans(outcomes: Iterable[Outcome]) -> dict[int, tuple[float, float]]:
    """Return for each worker the start of its first task and the end of its last, in seconds since the epoch."""
    spans: dict[int, tuple[float, float]] = {}
    for outcome in outcomes:
        start, end = spans.get(outcome.worker, (outcome.started, 0.0))
        spans[outcome.worker] = min(start, outcome.started), max(end, outcome.started + outcome.seconds)
    return spans
