"""The cost of a case of overhead.py: times, memory, and how many rows it wrote."""

import itertools
import math
import resource
import sqlite3
import statistics
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hpo.engine.observers import Observer


@dataclass(frozen=True)
class Measurement:
    """The cost of one case.

    Attributes:
        trials: how many were timed.
        seconds: wall time of these trials, until everything is where it belongs (record, MLflow, report).
        startup_seconds: until every worker had answered once; not part of `seconds`.
        driver_seconds: CPU time of this process within `seconds`.
        children_seconds: CPU time of the processes that it waited for, which is the one that writes to MLflow.
        peak_bytes: the most memory that this process held at any time.
        tenths: milliseconds a trial in each tenth of the trials, in the order of finishing; empty for peers.
    """

    trials: int
    seconds: float
    startup_seconds: float
    driver_seconds: float
    children_seconds: float
    peak_bytes: int = 0
    tenths: list[float] = field(default_factory=list)

    @property
    def milliseconds(self) -> float:
        """Wall time per trial, including what is done once per study: the report and its page."""
        return 1000 * self.seconds / self.trials

    @property
    def search_milliseconds(self) -> float:
        """Wall time per trial up to the last one; nan where it was not recorded."""
        return statistics.fmean(self.tenths) if self.tenths else math.nan


def fastest(several: Sequence[Measurement]) -> Measurement:
    """Return the turn that other users of the machine disturbed least, with the peak memory of all turns."""
    best = min(several, key=lambda one: one.milliseconds)
    return replace(best, peak_bytes=max(one.peak_bytes for one in several))


class Clock:
    """Wall and CPU time since `restart`."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Start the clocks again."""
        self._began = self._now()

    def read(self, trials: int, startup_seconds: float = 0.0) -> Measurement:
        """Return what was used since `restart`."""
        wall, driver, children = (now - then for now, then in zip(self._now(), self._began, strict=True))
        return Measurement(trials, wall, startup_seconds, driver, children)

    @staticmethod
    def _now() -> tuple[float, float, float]:
        own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
        return time.perf_counter(), own.ru_utime + own.ru_stime, children.ru_utime + children.ru_stime


class FinishTimes(Observer):
    """Notes when each trial is finished."""

    def __init__(self) -> None:
        self.times = [time.perf_counter()]

    def trial_finished(self, trial: Any) -> None:  # noqa: ARG002 -- the same call as its siblings
        """Note the time."""
        self.times.append(time.perf_counter())

    def tenths(self) -> list[float]:
        """Return the milliseconds per trial in each tenth of the trials, in the order of finishing."""
        last = len(self.times) - 1
        marks = [last * tenth // 10 for tenth in range(11)]
        return [
            1000 * (self.times[end] - self.times[start]) / max(end - start, 1)
            for start, end in itertools.pairwise(marks)
        ]


def count(database: Path, what: str) -> int:
    """Return how many rows a SQLite file holds: a speed counts only when the work was done."""
    with closing(sqlite3.connect(database)) as connection:
        return int(connection.execute(f"SELECT count(*) FROM {what}").fetchone()[0])
