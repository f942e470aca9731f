"""How often the intervals of `hpo compare` hold the mean, beside Student's t and the bootstrap.

A draw is a list of numbers: paired differences of two strategies, or results of one. They are normal, skewed
(exponential) or discrete (normal, rounded to whole numbers: many ties), each with a standard deviation near 1. Of six
pairs, which Holm's correction takes together, three have a true difference of 0 and three one of 1.
"""

import argparse
from collections.abc import Callable

import numpy as np
from scipy import stats

from benchmarks.shared.printing import Array, conditions, markdown
from hpo.compare.statistics import RESAMPLES, SignFlips, holm

REPEATS = (6, 10, 20, 50)
KINDS: dict[str, Callable[[np.random.Generator, int], Array]] = {
    "normal": lambda rng, count: rng.normal(size=count),
    "skewed": lambda rng, count: rng.exponential(size=count) - 1,
    "discrete": lambda rng, count: np.round(rng.normal(size=count)),
}
SHIFTS = (0.0, 0.0, 0.0, 1.0, 1.0, 1.0)


def by_sign_flips(values: Array) -> tuple[float, float]:
    """Return the ends of the interval of one mean, or of one pair's difference."""
    ends = SignFlips.of(values.tolist(), 0).interval()
    assert ends is not None
    return ends


def by_student(values: Array) -> tuple[float, float]:
    """Return the ends of Student's interval."""
    if not np.ptp(values):
        return values[0], values[0]
    low, high = stats.t.interval(0.95, len(values) - 1, values.mean(), stats.sem(values))
    return low, high


def by_bootstrap(values: Array) -> tuple[float, float]:
    """Return the ends of the bias-corrected and accelerated bootstrap interval (Efron 1987)."""
    if not np.ptp(values):
        return values[0], values[0]
    found = stats.bootstrap((values,), np.mean, n_resamples=RESAMPLES, rng=0).confidence_interval
    return found.low, found.high


def of_six_pairs(lists: list[Array]) -> list[tuple[float, float] | None]:
    """Return the intervals of pairs of one comparison; None where so few repeats have none."""
    flips = [SignFlips.of(values.tolist(), 0) for values in lists]
    return [each.interval(divisor) for each, (_, divisor) in zip(flips, holm([f.p for f in flips]), strict=True)]


def row(kind: str, repeats: int, draws: int) -> list[str]:
    """Return the shares of the draws in which each interval holds the mean."""
    rng, draw = np.random.default_rng(repeats), KINDS[kind]
    held: dict[str, list[bool]] = {name: [] for name in ("flips", "six", "student", "bootstrap")}
    for _ in range(draws):
        values = draw(rng, repeats)
        for name, make in (("flips", by_sign_flips), ("student", by_student), ("bootstrap", by_bootstrap)):
            low, high = make(values)
            held[name].append(low <= 0 <= high)
        pairs = of_six_pairs([draw(rng, repeats) + shift for shift in SHIFTS])
        held["six"] += [e[0] <= shift <= e[1] for shift, e in zip(SHIFTS, pairs, strict=True) if e is not None]
    shares = [f"{np.mean(those):.3f}".lstrip("0") if those else "none" for those in held.values()]
    return [kind, str(repeats), *shares]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=2000, help="a row")
    draws = parser.parse_args().draws
    print(f"{conditions(('numpy', 'scipy'))}\n")
    head = ("numbers", "repeats", "mean, or one pair", "each of six pairs", "Student's t", "BCa bootstrap")
    print(markdown(head, [row(kind, repeats, draws) for kind in KINDS for repeats in REPEATS]))


if __name__ == "__main__":
    main()
