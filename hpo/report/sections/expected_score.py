"""The winner's expected score."""

from collections.abc import Callable
from typing import Annotated, NotRequired, cast

from pydantic import Field
from typing_extensions import TypedDict

from hpo.report.part import Missing, Positive, is_missing, missing
from hpo.study.results.expected import Expected
from hpo.study.results.run import StudyRun


class Interval(TypedDict):
    """A number with its 95 % interval."""

    value: float
    low: float
    high: float


class ExpectedPart(Interval):
    """The expected value of the winner's metric in a new training; with several metrics, of the leading metric."""

    best_of: Annotated[Positive, Field(description="the number of trials, or finalists, among which it is the best")]
    of_all: Annotated[
        bool, Field(description="whether the noise comes from all complete trials, because few had as much training")
    ]
    scores: Annotated[
        NotRequired[dict[str, Interval]],
        Field(description="of each metric, each number with a limit, and study.measured; absent with one score"),
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
    if expected is None:
        return missing(
            "one fold and one seed do not show the noise of scores: set split.folds or study.repeats to at least 2, "
            "or declare in the objective's describe_method that the metric is a share of independent examples"
        )
    if is_missing(expected):
        return expected
    goal = run.goal
    part = cast("ExpectedPart", dict(vars(expected.score(goal.metric))))
    if len(goal.names) > 1:
        scores = {name: expected.score(name) for name in expected.worths}
        part["scores"] = {n: {"value": each.value, "low": each.low, "high": each.high} for n, each in scores.items()}
    return part
