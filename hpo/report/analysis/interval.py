"""The interval of a mean."""

from collections.abc import Sequence

from hpo.report.part import Missing, missing

_LEVEL = 0.95


def interval(values: Sequence[float]) -> list[float] | Missing:
    """Return the 95 % interval of the mean by Student's t over folds and seeds, lower end first.

    Folds share training examples, so the interval is too narrow (Bengio & Grandvalet 2004, JMLR 5, "No unbiased
    estimator of the variance of k-fold cross-validation"); the report says over what it was computed.
    """
    if len(values) < 2:
        return missing("one value has no spread: give split.folds or study.repeats of 2 or more")
    from scipy import stats  # here: it takes a while to load

    if min(values) == max(values):
        return [values[0], values[0]]
    interval = stats.ttest_1samp(values, 0.0).confidence_interval(_LEVEL)
    return [float(interval.low), float(interval.high)]
