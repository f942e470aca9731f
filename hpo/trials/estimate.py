"""A number with its 95 % interval, and two ways to make one: Wilson's for shares, and the bootstrap of a mean."""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

_LEVEL = 0.95
# Efron & Tibshirani 1993, section 13.3: at least 1,000 for the ends of an interval.
_RESAMPLES = 10_000
_DRAWN_AT_ONCE = 1_000_000  # numbers, which are 8 MB


@dataclass(frozen=True)
class Estimate:
    """A number, and how sure it is.

    Attributes:
        value: the number.
        low: the lower end of its 95 % interval; None where it has none.
        high: the upper end.
        n: the number of independent values that it comes from, such as test examples; None = not known.
        note: the method of the interval; without one, what would give one.
    """

    value: float
    low: float | None = None
    high: float | None = None
    n: int | None = None
    note: str = ""

    def text(self, write: Callable[[float], str], note: bool = True) -> str:
        """Return `0.9889 (95 % 0.9605 to 0.9970, n = 180)`; without an interval its `note`, or the value alone."""
        if self.low is None or self.high is None:
            return f"{write(self.value)}{f' (no interval: {self.note})' if note and self.note else ''}"
        return f"{write(self.value)} (95 % {write(self.low)} to {write(self.high)}, n = {self.n:,})"


def wilson_interval(share: float, n: int) -> tuple[float, float]:
    """Return the 95 % interval of a probability, given the share (0 to 1) of `n` independent trials.

    Source: the score interval of Wilson 1927, "Probable Inference, the Law of Succession, and Statistical Inference",
    without continuity correction.
    """
    z = statistics.NormalDist().inv_cdf((1 + _LEVEL) / 2)
    centre = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * math.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    return max(0.0, centre - half), min(1.0, centre + half)


def bootstrap_interval(values: Sequence[float], drawn_at_once: int = _DRAWN_AT_ONCE) -> tuple[float, float]:
    """Return the 95 % interval of the mean of independent values; random numbers come from seed 0.

    `drawn_at_once` bounds how many values are in memory.

    Source: the percentile bootstrap, Efron & Tibshirani 1993, "An Introduction to the Bootstrap", section 13.3.
    """
    import numpy as np  # here: a list of studies does without it

    array, rng, means = np.asarray(values, dtype=np.float64), np.random.default_rng(0), list[float]()
    while (left := _RESAMPLES - len(means)) > 0:
        rows = min(left, max(1, drawn_at_once // len(array)))
        means.extend(array[rng.integers(len(array), size=(rows, len(array)))].mean(axis=1))
    low, high = np.quantile(means, ((1 - _LEVEL) / 2, (1 + _LEVEL) / 2))
    return float(low), float(high)


@dataclass(frozen=True)
class ExpectedScore:
    """What a winner is expected to score, trained and scored anew.

    Attributes:
        value: of the (leading) metric: its score, less what it owes to having been chosen as the best.
        low: the lower end of its 95 % interval.
        high: the upper end.
        best_of: of how many trials, or finalists, it is the best.
        of_all: whether the noise is that of all complete trials, since fewer than 8 were trained as far as it.
    """

    value: float
    low: float
    high: float
    best_of: int
    of_all: bool = False

    @classmethod
    def of(cls, report: Mapping[str, Any]) -> Self | None:
        """Return what a report says of its winner; None where it says nothing."""
        said = (report.get("winner") or {}).get("expected") or {}
        return cls(*(said[each.name] for each in fields(cls))) if "value" in said else None

    def texts(self, write: Callable[[float], str]) -> dict[str, str]:
        """Return `value`, `low` and `high` as text."""
        return {name: write(getattr(self, name)) for name in ("value", "low", "high")}
