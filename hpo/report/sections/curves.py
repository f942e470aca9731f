"""Fields 17 and 19 of the report.

Field 17 has the best score so far, and random search's expected best score. Field 19 has the winner's learning curves.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from typing_extensions import TypedDict

from hpo.report.hypervolume import budgets_of
from hpo.report.part import Block, Missing, Paragraph, Table, is_missing, missing, require
from hpo.report.sections import ReportJson
from hpo.report.sections.winner import no_winner
from hpo.report.subject import dependent_text, score_of
from hpo.study.results.run import StudyRun
from hpo.study.study import PreparedStudy
from hpo.trials.ranking import at_largest_scale
from hpo.trials.score_format import score_format, with_spread
from hpo.trials.table import first_start
from hpo.trials.trial import Direction, Trial, loss_sign


class BestSoFar(TypedDict):
    """Field 17 of the report: two lists of the improvements of the best score.

    `trials` has the trials that are better than all trials proposed earlier. `seconds` has the trials that are better
    than all trials that ended earlier, each with the seconds from the start of the search to the trial's end.
    """

    trials: list[dict[str, float]]
    seconds: list[dict[str, float]]


class Expected(TypedDict):
    """The estimated mean and standard deviation of the best score of n trials, for each n in `budgets`."""

    estimator: str
    budgets: list[int]
    means: list[float]
    spreads: list[float]


class ExpectedPart(TypedDict):
    """Field 17 of the report: the biased and the unbiased estimate of random search's expected best score."""

    biased: Expected
    unbiased: Expected


class Curves(TypedDict):
    """Field 19 of the report: the winner's learning curve of each task."""

    trial: int
    tasks: dict[str, list[dict[str, float]]]


def best_so_far(run: StudyRun) -> BestSoFar:
    """Return two lists of the improvements of the best score: in the order of proposals, and in the order of end times.

    With several metrics, the score is the leading metric. A trial counts only if it is within the limits, is at the
    largest scale, and has the winner's amount of training. Trials that reached this amount only in trainings after the
    search come last in the order of proposals.
    """
    trials, winner = run.trials, run.winner
    later = {trial.number for trial in run.further}
    amount = winner.amount if winner else None
    complete = at_largest_scale([trial for trial in trials if trial.keeps_limits and trial.amount == amount])
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
    """Return, in the given order, the complete trials that are better than all trials before them."""
    best, improved = math.inf, []
    for trial in trials:
        if trial.loss < best:
            best = trial.loss
            improved.append(trial)
    return improved


def describe_curves(study: PreparedStudy, run: StudyRun) -> Curves | Missing:
    """Return the learning curve of each task of the winner; if there is no winner or no curve, return the reason."""
    winner = run.winner
    if winner is None:
        return no_winner(run)
    curves = {study.layout.name(k): [dict(p) for p in o.curve] for k, o in sorted(winner.outcomes.items()) if o.curve}
    return {"trial": winner.number, "tasks": curves} if curves else missing("the objective reports no learning curve")


DRAWN = "A trial counts only if it is complete, keeps the limits and has a point drawn at random."
"""Which trials serve to estimate the expected best score of a random search."""
_WITHOUT_STOPPED = (
    " Trials that were stopped early do not count. Most such trials are weak, so the estimate is too good: "
    "a real random search would reach worse scores."
)


def describe_expected(
    strategy: str, scores: Sequence[float], direction: Direction, is_extension: bool
) -> ExpectedPart | Missing:
    """Return the biased and the unbiased estimate of random search's expected best score.

    `scores` has the scores of `Subject.drawn_scores`. `is_extension` says whether the trials were
    selected from another study. If the estimates cannot be computed, return the reason.
    """
    if (reason := dependent_text(strategy, is_extension)) is not None:
        return missing(reason)
    if len(scores) < 2:
        return missing("fewer than two complete trials")
    return {
        "biased": expected_performance(scores, direction, "biased"),
        "unbiased": expected_performance(scores, direction, "unbiased"),
    }


def expected_performance(
    scores: Sequence[float], direction: Direction, estimator: Literal["biased", "unbiased"]
) -> Expected:
    """Return the expected best of n scores that are drawn from B given scores, for each of at most 40 values of n.

    The values of n are between 1 and B/2; see `budgets_of`. Beyond B/2, both estimators depend mostly on the best
    trial.

    `biased` draws with replacement, `unbiased` draws without replacement. The weights of the sorted scores v(1) <= ...
    <= v(B) are (i/B)^n - ((i-1)/B)^n for `biased`, and C(i-1, n-1) / C(B, n) for `unbiased`.

    Source: Dodge et al. 2019, "Show Your Work" (arXiv 1909.03004), equation 2; Tang et al. 2020 (arXiv 2004.13705),
    equation 6.
    """
    sign = -loss_sign(direction)
    values = np.sort(sign * np.asarray(scores, dtype=float))
    budgets = budgets_of(len(values))
    curve: Expected = {"estimator": estimator, "budgets": budgets, "means": [], "spreads": []}
    for n in budgets:
        weights = _biased(len(values), n) if estimator == "biased" else unbiased_weights(len(values), n)
        mean = float(weights @ values)
        curve["means"].append(sign * mean)
        curve["spreads"].append(math.sqrt(max(0.0, float(weights @ (values - mean) ** 2))))
    return curve


def _biased(size: int, n: int) -> NDArray[np.float64]:
    weights: NDArray[np.float64] = np.diff((np.arange(size + 1) / size) ** n)
    return weights


def unbiased_weights(size: int, n: int) -> NDArray[np.float64]:
    """Return the weights for the expected best of n scores, drawn without replacement from B = `size` scores.

    If the B scores are sorted from worst to best, their weighted sum is the expected best. The weight of the i-th score
    is w_i = C(i-1, n-1) / C(B, n), for i = 1 to B.
    """
    # Binomials of large B overflow, so start from w_B = n / B, and then use w_i = w_(i+1) * (i - n + 1) / i.
    weights = np.zeros(size)
    places = np.arange(n, size)
    ratios = (places - n + 1) / places
    weights[n - 1 :] = n / size * np.concatenate([np.cumprod(ratios[::-1])[::-1], [1.0]])
    return weights


def read_best_so_far(report: ReportJson) -> Iterator[Block]:
    """Yield a table of the improvements of the best score, in the order in which the trials ended."""
    steps = require(report["best_so_far"])["seconds"]
    text = score_format(step["score"] for step in steps)
    rows = [(f"{step['seconds']:.0f}", str(step["trial"]), text(step["score"])) for step in steps]
    yield Table(("seconds", "trial", "best so far"), rows)


def read_expected(report: ReportJson) -> Iterator[Block]:
    """Yield a table of the expected best score per number of trials, with an unbiased and a biased estimate.

    If the estimates are missing, yield the reason.
    """
    expected = report["expected_performance"]
    if is_missing(expected):
        yield Paragraph(f"Missing: {expected['missing']}.")
        return
    counts = report["counts"]
    has_stopped = not is_missing(counts) and counts["stopped"] > 0
    yield Paragraph(
        "The expected best score of a random search with n trials, ± the standard deviation over searches. "
        f"{DRAWN}{_WITHOUT_STOPPED * has_stopped}"
    )
    both = expected["unbiased"], expected["biased"]
    # For n = 1 both estimates are the mean of the scores, but their last bits may differ, so round them.
    text = score_format(float(f"{mean:.9g}") for each in both for mean in each["means"])
    columns = [
        [" ± ".join(with_spread(text, *pair)) for pair in zip(each["means"], each["spreads"], strict=True)]
        for each in both
    ]
    rows = list(zip(map(str, both[0]["budgets"]), *columns, strict=True))
    yield Table(("complete trials", "unbiased (Tang et al. 2020)", "biased (Dodge et al. 2019)"), rows)
