"""Estimates with 95 % intervals: Wilson's interval for a share, and the bootstrap interval for other scores."""

import math
import statistics
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Numbers = npt.NDArray[np.float64]

_LEVEL = 0.95
# For the ends of an interval, Efron & Tibshirani 1993, section 13.3, ask for at least 1,000 resamples.
_RESAMPLES = 10_000
_DRAWN_AT_ONCE = 1_000_000  # numbers, which take 8 MB


@dataclass(frozen=True)
class Estimate:
    """A number with a 95 % interval.

    Attributes:
        value: the number.
        low: the lower end of the interval; None = there is no interval.
        high: the upper end of the interval; None = there is no interval.
        n: the number of independent values from which the estimate was made, such as test examples; None = unknown.
        note: the method of the interval; if there is no interval, what the user can do to get an interval.
    """

    value: float
    low: float | None = None
    high: float | None = None
    n: int | None = None
    note: str = ""

    def text(self, write: Callable[[float], str], note: bool = True) -> str:
        """Return the value, its 95 % interval and `n` as text: `0.9889 (95 % 0.9605 to 0.9970, n = 180)`.

        Without an interval, return only the value; if the argument `note` is true, add the reason why there is no
        interval. `write` formats a number.
        """
        if self.low is None or self.high is None:
            return f"{write(self.value)}{f' (no interval: {self.note})' if note and self.note else ''}"
        return f"{write(self.value)} (95 % {write(self.low)} to {write(self.high)}, n = {self.n:,})"


def wilson_interval(share: float, n: int) -> tuple[float, float]:
    """Return the 95 % interval of a probability, given the share of successes (0 to 1) in `n` independent trials.

    Source: the score interval of Wilson 1927, "Probable Inference, the Law of Succession, and Statistical Inference",
    without continuity correction.
    """
    z = statistics.NormalDist().inv_cdf((1 + _LEVEL) / 2)
    centre = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * math.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    return max(0.0, centre - half), min(1.0, centre + half)


def bootstrap_interval(
    score: "Callable[[Numbers], Iterable[float]]", size: int, drawn_at_once: int = _DRAWN_AT_ONCE
) -> tuple[float, float]:
    """Return the 95 % interval of a score of `size` independent examples; the resampling uses a fixed random seed.

    Args:
        score: a function that takes an array (resamples, size) and returns the score of each resample. The array says
            how often each resample draws each example.
        size: the number of examples.
        drawn_at_once: limits how many numbers are in memory at once.

    Raises:
        ValueError: `score` does not return one number for each resample.

    Source: the percentile bootstrap, Efron & Tibshirani 1993, "An Introduction to the Bootstrap", section 13.3. For
    corpus metrics such as BLEU: Koehn 2004, "Statistical significance tests for machine translation evaluation".
    """
    import numpy as np  # Imported here, because `hpo list` imports this module but needs no numpy.

    rng, scores = np.random.default_rng(0), list[float]()
    while (left := _RESAMPLES - len(scores)) > 0:
        rows = min(left, max(1, drawn_at_once // size))
        drawn = rng.integers(size, size=(rows, size)) + size * np.arange(rows)[:, np.newaxis]
        counts = np.bincount(drawn.ravel(), minlength=rows * size).reshape(rows, size).astype(np.float64)
        of_resamples = np.asarray(score(counts), dtype=np.float64)
        if of_resamples.shape != (rows,):
            shape = of_resamples.shape
            needs = f"the function must return {rows} numbers, one per resample"
            raise ValueError(f"{needs}, but returned an array of the shape {shape}")
        scores.extend(of_resamples)
    low, high = np.quantile(scores, ((1 - _LEVEL) / 2, (1 + _LEVEL) / 2))
    return float(low), float(high)


@dataclass(frozen=True)
class ExpectedScore:
    """The mean score that new trainings of the winner can be expected to get.

    Attributes:
        value: the winner's score, corrected for the bias of choosing the best; with several metrics, the score in the
            leading one.
        low: the lower end of the 95 % interval of this mean; a single training may score outside of it.
        high: the upper end of the interval.
        best_of: the number of trials or finalists from which the winner was chosen.
        of_all: whether trials with another scale or amount of training than the winner's helped to estimate the noise.
            They help if fewer than 8 complete trials have the winner's scale and amount.
    """

    value: float
    low: float
    high: float
    best_of: int
    of_all: bool = False

    @classmethod
    def of(cls, report: Mapping[str, Any]) -> Self | None:
        """Return the expected score of the winner in a report; None if the report has no expected score."""
        expected = (report.get("winner") or {}).get("expected") or {}
        return cls(*(expected[each.name] for each in fields(cls))) if "value" in expected else None

    def texts(self, write: Callable[[float], str]) -> dict[str, str]:
        """Return `value`, `low` and `high` by name, each formatted by `write`."""
        return {name: write(getattr(self, name)) for name in ("value", "low", "high")}
