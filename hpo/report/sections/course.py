"""The best score so far, against trials and against time, and the winner's learning curves: fields 17 and 19."""

import math
from collections.abc import Iterable, Iterator
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
from hpo.study.winner.verdict import Verdict

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


def best_so_far(verdict: Verdict) -> BestSoFar:
    """Return every improvement, in the order of proposal and in the order in which trials ended.

    Trials with less training than the winner do not count; those that got it only after the search come last.
    """
    trials, winner = verdict.trials, verdict.winner
    later = {trial.number for trial in verdict.further}
    amount = winner.amount if winner else None
    complete = [trial for trial in trials if trial.state == "complete" and trial.amount == amount]
    complete.sort(key=lambda trial: (trial.number in later, trial.number))
    start = first_start(trials)
    ended = [(trial.ended - start, trial) for trial in complete if trial.ended is not None]
    ended.sort(key=lambda pair: (pair[0], pair[1].number))
    seconds = {trial.number: time for time, trial in ended}
    by_number = [{"trial": trial.number, "score": score_of(trial)} for trial in improvements(complete)]
    by_time = [
        {"seconds": seconds[trial.number], "trial": trial.number, "score": score_of(trial)}
        for trial in improvements(trial for _, trial in ended)
    ]
    return {"trials": by_number, "seconds": by_time}


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
