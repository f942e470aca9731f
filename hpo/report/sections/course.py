"""The best score so far, against trials and against time, and the winner's learning curves: fields 17 and 19."""

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from pydantic import with_config
from typing_extensions import TypedDict

from hpo.engine.trials.digits import score_format
from hpo.engine.trials.table import first_start
from hpo.engine.trials.trial import Trial
from hpo.report.blocks import Block, Table
from hpo.report.part import EXACT, Missing, missing, require
from hpo.report.sections.winner import NO_WINNER
from hpo.report.subject import score_of
from hpo.study.study import Study

if TYPE_CHECKING:
    from hpo.report.sections.report import ReportJson


@with_config(EXACT)
class BestSoFar(TypedDict):
    """Field 17: every improvement, in the order of proposal and in the order of time."""

    trials: list[dict[str, float]]
    seconds: list[dict[str, float]]


class Curves(TypedDict):
    """Field 19: the winner's learning curve of each task."""

    trial: int
    tasks: dict[str, list[dict[str, float]]]


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


def describe_curves(study: Study, winner: Trial | None) -> Curves | Missing:
    """Return the winner's learning curve of each task; all others are in the record and in report.html."""
    if winner is None:
        return missing(NO_WINNER)
    curves = {study.layout.name(k): [dict(p) for p in o.curve] for k, o in sorted(winner.outcomes.items()) if o.curve}
    return {"trial": winner.number, "tasks": curves} if curves else missing("the objective yields no learning curve")


def read_best_so_far(report: "ReportJson") -> Iterator[Block]:
    """Yield the improvements in the order of time."""
    steps = require(report["best_so_far"])["seconds"]
    text = score_format(step["score"] for step in steps)
    rows = [(f"{step['seconds']:.0f}", str(step["trial"]), text(step["score"])) for step in steps]
    yield Table(("seconds", "trial", "best so far"), rows)
