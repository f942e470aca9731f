"""What benchmarks print: their conditions, tables in Markdown, means with bootstrap intervals, and broken promises."""

import os
import platform
import shlex
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 2000

Array = NDArray[np.float64]


def conditions(packages: Sequence[str] = ("optuna", "torch", "numpy", "hpo-transformer")) -> str:
    """Return hardware, versions, date and load: the header of a benchmark report."""
    versions = ", ".join(f"{name} {version(name)}" for name in packages)
    load_average = "/".join(f"{x:.1f}" for x in os.getloadavg())
    return "\n".join(
        [
            "```",
            f"command   python {shlex.join(sys.orig_argv[1:])}",
            f"date      {datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
            f"hardware  {os.cpu_count()} cores, {platform.system()} {platform.machine()}; load {load_average}",
            f"versions  python {platform.python_version()}, {versions}",
            "```",
        ]
    )


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def expect(what: str, found: object, expected: object) -> None:
    """End the benchmark where a promise is broken, or work was not done."""
    if found != expected:
        raise SystemExit(f"{what}: {found}, expected {expected}")


def interval(values: Array) -> tuple[float, float, float]:
    """Return the mean and its 95 % bootstrap interval (percentiles of the means of resampled searches)."""
    rng = np.random.default_rng(0)
    means = values[rng.integers(len(values), size=(RESAMPLES, len(values)))].mean(axis=1)
    low, high = np.percentile(means, [2.5, 97.5])
    return float(values.mean()), float(low), float(high)


def difference(mine: Array, theirs: Array) -> tuple[float, float, float]:
    """Return the difference of two means and its 95 % bootstrap interval, both samples resampled.

    Searches of different methods share nothing but the number of their seed, so there is nothing to pair.
    """
    rng = np.random.default_rng(0)
    first, second = (v[rng.integers(len(v), size=(RESAMPLES, len(v)))].mean(axis=1) for v in (mine, theirs))
    low, high = np.percentile(first - second, [2.5, 97.5])
    return float(mine.mean() - theirs.mean()), float(low), float(high)


def with_interval(values: Array) -> str:
    """Return a mean and its interval as text: `.084 (.071-.097)`."""
    mean, low, high = (f"{x:.3f}".replace("0.", ".", 1) for x in interval(values))
    return f"{mean} ({low}-{high})"
