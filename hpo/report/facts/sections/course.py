"""Field 17: the best score so far, against trials and against time."""

import math
from collections.abc import Collection, Iterable, Sequence

from hpo.engine.trials.table import first_start
from hpo.engine.trials.trial import Trial
from hpo.report.facts.schema.results import BestSoFar
from hpo.report.facts.subject import score_of


def best_so_far(trials: Sequence[Trial], amount: int | None, later: Collection[int] = ()) -> BestSoFar:
    """Return every improvement, in two orders.

    Args:
        trials: all trials.
        amount: how far the winner was trained; trials with less training do not count.
        later: the numbers of those that were trained so far only after the search: they come after all others.

    Returns:
        `trials`: in the order of the trials' numbers, which is the order of proposal: `trial` and `score`.
        `seconds`: in the order of their ends: `seconds` (since the study's first training began), `trial` and `score`.
    """
    complete = [trial for trial in trials if trial.state == "complete" and trial.amount == amount]
    complete.sort(key=lambda trial: (trial.number in later, trial.number))
    start = first_start(trials)
    ended = [(trial.ended - start, trial) for trial in complete if trial.ended is not None]
    ended.sort(key=lambda pair: (pair[0], pair[1].number))
    seconds = {trial.number: time for time, trial in ended}
    return {
        "trials": [{"trial": trial.number, "score": score_of(trial)} for trial in improvements(complete)],
        "seconds": [
            {"seconds": seconds[trial.number], "trial": trial.number, "score": score_of(trial)}
            for trial in improvements(trial for _, trial in ended)
        ],
    }


def improvements(trials: Iterable[Trial]) -> list[Trial]:
    """Return the trials, in their order, that were better than all before them."""
    best, improved = math.inf, []
    for trial in trials:
        if trial.loss < best:
            best = trial.loss
            improved.append(trial)
    return improved
