"""The time of a search: seconds since its first task began, without the pauses in which it did not run."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from hpo.engine.record.record import Stretch
from hpo.engine.trials.trial import Outcome
from hpo.report.analysis.stretches import stretch_runs

# A pause between two stretches is removed from the time axis, and another if it is longer than both of these: a study
# that was resumed the next day would otherwise be two strips at the ends of an empty picture.
_SHARE = 0.1  # of the time in which something ran
_SECONDS = 60.0
_AN_HOUR = 3600.0


@dataclass(frozen=True)
class Clock:
    """The clock of a search.

    Attributes:
        start: start of the first task, in seconds since the epoch.
        pauses: start and end of each pause, in the same seconds, in order.
    """

    start: float
    pauses: tuple[tuple[float, float], ...]

    @classmethod
    def of(cls, outcomes: Sequence[Outcome], stretches: Sequence[Stretch] = ()) -> Self:
        """Return the clock of these tasks, which the search ran in these stretches."""
        resumed = {ran.started for ran in stretch_runs(outcomes, stretches)[1:]}
        gaps: list[tuple[float, float]] = []
        ordered = sorted(outcomes, key=lambda o: o.started)
        start = ordered[0].started if ordered else 0.0
        end, running = start, 0.0
        for outcome in ordered:
            if outcome.started > end:
                gaps.append((end, outcome.started))
            running += max(0.0, outcome.started + outcome.seconds - max(end, outcome.started))
            end = max(end, outcome.started + outcome.seconds)
        longest = max(_SECONDS, _SHARE * running)
        return cls(start, tuple(g for g in gaps if g[1] in resumed or g[1] - g[0] > longest))

    def at(self, time: float) -> float:
        """Return the seconds since the start without pauses."""
        paused = sum(min(time, end) - begin for begin, end in self.pauses if time > begin)
        return time - self.start - paused

    @property
    def note(self) -> str:
        """A sentence on the pauses that were left out; empty if there are none."""
        if not self.pauses:
            return ""
        seconds = sum(end - begin for begin, end in self.pauses)
        length = f"{seconds / _AN_HOUR:.1f} hours" if seconds >= _AN_HOUR / 10 else f"{seconds:.0f} s"
        times = "pause" if len(self.pauses) == 1 else "pauses"
        return f" {len(self.pauses)} {times} in which nothing ran ({length}, dotted) left out."

    def mark(self, figure: Any, unit: float, **place: Any) -> None:
        """Draw a dotted line for each pause that was left out; at most fifty."""
        for begin, _ in self.pauses[:50]:
            figure.add_vline(x=self.at(begin) / unit, line_dash="dot", line_color="#888", line_width=1, **place)
