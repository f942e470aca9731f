"""What was searched for, metrics and limits, and the front that was found: as report.json holds it, and in words."""

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field, with_config
from typing_extensions import TypedDict

from hpo.report.formatting import join_names
from hpo.report.part import EXACT, Count, Missing, Point, Share, Text, is_missing
from hpo.report.sections import ReportJson
from hpo.report.sections.scores import Spread
from hpo.trials.score_format import score_format

_MOST_TRIALS = 20


@with_config(EXACT)
class Aim(TypedDict):
    """One of the metrics."""

    direction: Literal["maximize", "minimize"]
    definition: Text


@with_config(EXACT)
class LimitPart(TypedDict):
    """A bound that the winner keeps."""

    metric: str
    bound: float
    is_least: Annotated[bool, Field(description="whether the metric must be at least the bound; else at most")]
    text: str


@with_config(EXACT)
class Member(TypedDict):
    """A trial that none dominates; of one metric the best."""

    number: Count
    point: Point
    amount: NotRequired[
        Annotated[int, Field(description="how far it was trained; absent where the strategy trains completely")]
    ]
    scores: Annotated[dict[str, Spread], Field(description="of each metric, and of what has a limit")]
    is_chosen: bool
    command: NotRequired[
        Annotated[str, Field(description="what trains it once more; absent where nothing is trained here")]
    ]
    overlaps: Annotated[list[int], Field(description="members whose 95 % intervals overlap with its own everywhere")]


@with_config(EXACT)
class ChangedChoice(TypedDict):
    """A change of `study.choose`, or of `study.limits`, after the search had begun."""

    key: Annotated[Literal["study.choose", "study.limits"], Field(description="which of the two")]
    time: str
    before: Any
    after: Any
    trials: Annotated[Count, Field(description="how many had ended")]
    is_test_open: bool


@with_config(EXACT)
class Choice(TypedDict):
    """How one of the front became the winner."""

    rule: Annotated[Any, Field(description="study.choose")]
    text: str
    changes: Annotated[list[ChangedChoice], Field(description="empty where it was decided before the search")]


@with_config(EXACT)
class ExpectedVolume(TypedDict):
    """Mean and standard deviation of the hypervolume over random searches of n trials."""

    orders: Annotated[int, Field(description="random orders, of seed 0; all subsets where there are at most so many")]
    budgets: list[int]
    means: list[float]
    spreads: list[float]


@with_config(EXACT)
class Volume(TypedDict):
    """The hypervolume of the front as it grew: higher is better."""

    reference: Annotated[float, Field(description="in every metric, scaled: 0 the best of `scale`, 1 the worst")]
    scale: Annotated[dict[str, list[float]], Field(description="the best and the worst within the limits, by metric")]
    trials: Annotated[list[dict[str, float]], Field(description="those that added to it, and what it was from then on")]
    expected: Annotated[ExpectedVolume | Missing, Field(description="of a random search among the same trials")]


@with_config(EXACT)
class FrontPart(TypedDict):
    """Fields 8, 12, 15 and 17 of a study with several metrics, or with limits, or that had some."""

    metrics: Annotated[dict[str, Aim], Field(description="the first is the leading one")]
    limits: list[LimitPart]
    limit_changes: Annotated[
        list[ChangedChoice], Field(description="empty where the limits were given before the search")
    ]
    members: Annotated[list[Member], Field(description="the best of the leading metric first")]
    near: Annotated[list[int], Field(description="dominated trials that may belong to it, by their intervals")]
    choice: NotRequired[Annotated[Choice, Field(description="absent with one metric")]]
    complete: Count
    beyond_limits: Annotated[Count, Field(description="of the complete trials")]
    share_beyond_limits: Share | None
    hypervolume: NotRequired[Annotated[Volume | Missing, Field(description="absent with one metric")]]


def front_of(report: ReportJson) -> FrontPart | None:
    """Return the section; None of one metric without limits, and where it could not be made."""
    front = report.get("front")
    return None if front is None or is_missing(front) else front


def goal_text(front: FrontPart) -> str:
    """Return metrics and limits in words: `accuracy (maximize) and parameters (minimize), within latency <= 5`."""
    return join_names([f"{name} ({aim['direction']})" for name, aim in front["metrics"].items()]) + limits_text(front)


def limits_text(front: FrontPart) -> str:
    """Return the limits, to follow what is within them; empty without one."""
    limits = [limit["text"] for limit in front["limits"]]
    return f", within {join_names(limits)}" if limits else ""


def aim_text(front: FrontPart, name: str) -> str:
    """Return a metric with its direction and limits: `parameters (minimize, <= 1e+06)`."""
    aims: list[str] = [front["metrics"][name]["direction"]] if name in front["metrics"] else []
    aims += [limit["text"].removeprefix(f"{name} ") for limit in front["limits"] if limit["metric"] == name]
    return f"{name} ({', '.join(aims)})"


def names_of(front: FrontPart) -> list[str]:
    """Return the metrics, and then what has a limit."""
    return list(dict.fromkeys([*front["metrics"], *(limit["metric"] for limit in front["limits"])]))


def value_format(report: ReportJson, name: str) -> Callable[[float], str]:
    """Return what writes a metric, or what has a limit: with the digits that tell the front and the best apart."""
    front = front_of(report)
    members = [] if front is None else [member["scores"][name]["mean"] for member in front["members"]]
    values = [*members, *(trial["scores"][name] for trial in report["top"])]
    return score_format(values)


def trials_text(numbers: Sequence[int]) -> str:
    """Return the numbers of trials, of many the first ones."""
    more = len(numbers) - _MOST_TRIALS
    texts = [*map(str, numbers[:_MOST_TRIALS]), *([f"{more} more"] if more > 0 else ())]
    return f"{'trial' if len(numbers) == 1 else 'trials'} {join_names(texts)}"
