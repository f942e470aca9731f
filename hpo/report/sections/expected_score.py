"""The winner's expected score."""

from collections.abc import Callable
from typing import Annotated, NotRequired, cast

from pydantic import Field
from typing_extensions import TypedDict

from hpo.report.part import Missing, Positive, is_missing, missing
from hpo.study.results.expected import Expected
from hpo.study.results.run import StudyRun


class Interval(TypedDict):
    """A value with the ends `low` and `high` of its 95 % confidence interval."""

    value: float
    low: float
    high: float


class ExpectedPart(Interval):
    """The expected mean score of new trainings of the winner; with several metrics, in the leading metric."""

    best_of: Annotated[Positive, Field(description="number of trials or finalists from which the winner was chosen")]
    of_all: Annotated[
        bool,
        Field(
            description="true = the noise is estimated from all complete trials, because fewer than 8 of them have the "
            "winner's scale and amount of training"
        ),
    ]
    scores: Annotated[
        NotRequired[dict[str, Interval]],
        Field(
            description="expected value by name, for each metric and each other name in study.limits or "
            "study.measured; absent if the score is the only such value"
        ),
    ]


def interval_text(interval: Interval, text: Callable[[float], str]) -> str:
    """Return a number with its interval as text; leave out the interval if both of its ends have the same text."""
    value, low, high = (text(interval[key]) for key in ("value", "low", "high"))
    return value if low == high else f"{value} ({low} to {high})"


def describe_expected_score(expected: Expected | Missing | None, run: StudyRun) -> ExpectedPart | Missing:
    """Return the winner's expected score, or the reason why it is not known."""
    if expected is None and any(finalist.again.state == "running" for finalist in run.finalists):
        return missing("not all finalists are trained on fresh seeds yet")
    if expected is None and run.fresh:
        return missing(
            "one fold and one fresh seed do not show the noise of scores: set split.folds or study.finalist_repeats to "
            "at least 2"
        )
    if expected is None and run.config.study.extends is not None:
        return missing(
            "hpo extend selected these trials from another study by their scores on the same seeds, so the scores are "
            "too good: set study.finalists to train the best trials again on fresh seeds"
        )
    if expected is None:
        text = "one fold and one seed do not show the noise of scores: set split.folds or study.repeats to at least 2"
        if not run.config.objective.startswith("model."):
            text += ", or declare in the objective's describe_method that the metric is a share of independent examples"
        return missing(text)
    if is_missing(expected):
        return expected
    goal = run.goal
    part = cast("ExpectedPart", dict(vars(expected.score(goal.metric))))
    if len(goal.names) > 1:
        scores = {name: expected.score(name) for name in expected.worths}
        part["scores"] = {n: {"value": each.value, "low": each.low, "high": each.high} for n, each in scores.items()}
    return part
