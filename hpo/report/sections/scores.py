"""Computes means over folds and seeds, with intervals, for the metrics and the other values of a trial."""

from collections.abc import Callable, Sequence
from typing import Annotated

from pydantic import Field
from typing_extensions import TypedDict

from hpo.study.results.choosing import standard_error
from hpo.trials.goal import Goal
from hpo.trials.trial import Trial


class Spread(TypedDict):
    """The mean of a trial's values over folds and seeds; `standard_error` and `interval` are null for one value."""

    mean: float
    standard_error: float | None
    interval: Annotated[list[float] | None, Field(description="95 % interval of the mean by Student's t")]


def spreads(trial: Trial, goal: Goal) -> dict[str, Spread]:
    """Return, for each name in `goal.names`, the mean of a complete trial's values over folds and seeds."""
    return {
        name: {
            "mean": trial.mean(name),
            "standard_error": standard_error(trial, name),
            "interval": interval(trial.values(name)),
        }
        for name in goal.names
    }


def spread_text(score: Spread, text: Callable[[float], str]) -> str:
    """Return a mean with its interval as text; leave out an interval that does not exist or has equal ends."""
    if score["interval"] is None or score["interval"][0] == score["interval"][1]:
        return text(score["mean"])
    low, high = map(text, score["interval"])
    return f"{text(score['mean'])} ({low} to {high})"


_LEVEL = 0.95


def interval(values: Sequence[float]) -> list[float] | None:
    """Return the 95 % interval of the mean by Student's t over folds and seeds, lower end first; None for one value.

    Folds share training examples, so the interval is too narrow (Bengio & Grandvalet 2004, JMLR 5, "No unbiased
    estimator of the variance of k-fold cross-validation"). The report says that intervals are over folds and seeds.
    """
    if len(values) < 2:
        return None
    from scipy import stats  # here: it takes a while to load

    if min(values) == max(values):
        return [values[0], values[0]]
    interval = stats.ttest_1samp(values, 0.0).confidence_interval(_LEVEL)
    return [float(interval.low), float(interval.high)]
