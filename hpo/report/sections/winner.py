"""The winner, its scores, and the best trials beside it: fields 14 and 15."""

import statistics
from collections.abc import Sequence
from typing import Annotated, Any, NotRequired

from pydantic import Field, with_config
from typing_extensions import TypedDict

from hpo.engine.trials.trial import Trial
from hpo.report.missing import EXACT, Count, Missing, Point, Positive, missing
from hpo.report.subject import score_of
from hpo.study.folder import short_path
from hpo.study.notes import FinalModel
from hpo.study.study import Study


@with_config(EXACT)
class Winner(TypedDict):
    """Fields 14 and 15."""

    number: Count
    round: Count
    point: Point
    amount: Annotated[int | None, Field(description="how far it was trained; null = all of its training")]
    score: Annotated[float, Field(description="mean of `values`")]
    values: Annotated[dict[str, float], Field(description="score of each fold and seed, by its column in trials.csv")]
    n: Positive
    standard_deviation: Annotated[float | None, Field(description="of `values`, with n - 1; null for one value")]
    interval: Annotated[list[float] | Missing, Field(description="95 % interval of the mean by Student's t")]
    num_parameters: int | None
    config: str
    model: dict[str, Any] | None
    run: Annotated[dict[str, Any], Field(description="how its run is found in the tracker")]


@with_config(EXACT)
class Short(TypedDict):
    """One trial of the best."""

    number: Count
    score: float
    point: Point
    amount: NotRequired[Annotated[int, Field(description="how far it was trained, where amounts differ")]]


# Confidence level of the interval of a mean.
_LEVEL = 0.95


NO_WINNER = "no trial is complete, so there is no winner"


def describe_winner(study: Study, winner: Trial, model: FinalModel | None) -> Winner:
    """Return the winner's point, its score on each task, and the paths of its configuration and model."""
    metric = study.config.study.metric
    values = winner.values(metric)
    tasks = [study.layout.name(index) for index in sorted(winner.outcomes)]
    return {
        "number": winner.number,
        "round": winner.round,
        "point": dict(winner.point),
        "amount": winner.amount,
        "score": score_of(winner),
        "values": dict(zip(tasks, values, strict=True)),
        "n": len(values),
        "standard_deviation": statistics.stdev(values) if len(values) > 1 else None,
        "interval": interval(values),
        "num_parameters": max((int(n) for n in winner.values("num_parameters")), default=None),
        "config": str(short_path(study.folder.best_path)),
        "model": vars(model) if model else None,
        "run": {"study": study.config.study.name, "trial": winner.number, "tag": f"hpo.trial={winner.number}"},
    }


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


def describe_short(trial: Trial) -> Short:
    """Return one of the best trials in short."""
    short: Short = {"number": trial.number, "score": score_of(trial), "point": dict(trial.point)}
    if trial.amount is not None:
        short["amount"] = trial.amount
    return short
