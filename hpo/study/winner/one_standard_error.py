"""The rule of one standard error: of those that are as good as the best up to noise, the cheapest."""

import math
import statistics
from collections.abc import Iterable

from hpo.engine.trials.trial import Trial


def standard_error(trial: Trial, metric: str) -> float | None:
    """Return the standard error of a trial's score over its folds and seeds; None where it has a single one."""
    values = trial.values(metric)
    return statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None


def as_good_as(best: Trial, trials: Iterable[Trial], metric: str) -> list[Trial]:
    """Return the complete trials, trained as far, within one standard error of the best; without it itself."""
    error = standard_error(best, metric)
    if error is None:
        return []
    complete = [t for t in trials if t.state == "complete" and t.number != best.number and t.amount == best.amount]
    return [trial for trial in complete if trial.loss - best.loss <= error]


def cheapest(trials: Iterable[Trial]) -> Trial:
    """Return the trial of the least cost, in seconds where there was no clock; ties go to the better one.

    Source: Breiman, Friedman, Olshen & Stone 1984, "Classification and Regression Trees", section 3.4.3 (the 1 SE rule;
    there the smallest tree).
    """
    return min(trials, key=lambda trial: (_cost(trial), trial.loss, trial.number))


def _cost(trial: Trial) -> float:
    # Trained as far by steps, the last of which may be a part only: then a unit's cost compares.
    cost = trial.total_cost if trial.amount is None else trial.cost
    return trial.seconds if cost is None else cost
