"""What the winner is expected to score, and its gain over the default configuration."""

from collections.abc import Callable
from typing import Annotated, NotRequired

from pydantic import Field, with_config
from typing_extensions import TypedDict

from hpo.report.part import EXACT, Missing, Positive, is_missing, missing
from hpo.study.results.expected import Expected
from hpo.trials.goal import Goal


@with_config(EXACT)
class Interval(TypedDict):
    """A number with the ends of its 95 % interval."""

    value: float
    low: float
    high: float


@with_config(EXACT)
class ExpectedPart(Interval):
    """What the winner is expected to have of the (leading) metric, trained and scored anew."""

    best_of: Annotated[Positive, Field(description="of how many trials, or finalists, it is the best")]
    of_all: Annotated[
        bool, Field(description="whether the noise is that of all complete trials, since few were trained as far")
    ]
    scores: NotRequired[
        Annotated[
            dict[str, Interval], Field(description="of each metric, and of what has a limit; absent with one score")
        ]
    ]


def interval_text(said: Interval, text: Callable[[float], str]) -> str:
    """Return a number with its interval, where that is not a single value."""
    value, low, high = (text(said[key]) for key in ("value", "low", "high"))
    return value if low == high else f"{value} ({low} to {high})"


def describe_expected_score(expected: Expected | Missing | None, goal: Goal) -> ExpectedPart | Missing:
    """Return what the winner is expected to score, or why that is not known."""
    if expected is None:
        return missing(
            "one fold and one seed do not show how noisy scores are: give split.folds or study.repeats of 2 or more, "
            "or let describe_method of the objective say that the metric is a share of independent examples"
        )
    if is_missing(expected):
        return expected
    leading = expected.score(goal.metric)
    part: ExpectedPart = {
        "value": leading.value,
        "low": leading.low,
        "high": leading.high,
        "best_of": leading.best_of,
        "of_all": leading.of_all,
    }
    if not goal.is_single:
        scores = {name: expected.score(name) for name in goal.names}
        part["scores"] = {n: {"value": each.value, "low": each.low, "high": each.high} for n, each in scores.items()}
    return part
