"""The metrics, the limits and the Pareto front: their schema, and their texts."""

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from hpo.report.formatting import join_names
from hpo.report.part import Count, Missing, Point, Share, Text, is_missing
from hpo.report.sections import ReportJson
from hpo.report.sections.scores import Spread
from hpo.trials.score_format import score_format

_MOST_TRIALS = 20


class Aim(TypedDict):
    """The direction and the definition of a metric."""

    direction: Literal["maximize", "minimize"]
    definition: Text


class LimitPart(TypedDict):
    """A limit that the winner must not exceed."""

    metric: str
    bound: float
    is_least: Annotated[bool, Field(description="true = the metric must be at least the bound, false = at most")]
    text: str


class Member(TypedDict):
    """A trial on the Pareto front. With one metric, this is the best trial."""

    number: Count
    point: Point
    amount: Annotated[
        NotRequired[int], Field(description="the trial's amount of training; absent if all trials are fully trained")
    ]
    scores: Annotated[dict[str, Spread], Field(description="by name: metrics, numbers with a limit, study.measured")]
    is_chosen: bool
    command: Annotated[
        NotRequired[str],
        Field(description="the command that trains the trial again; absent if trainings run outside of the toolkit"),
    ]
    overlaps: Annotated[
        list[int],
        Field(
            description="trial numbers of similar trials on the front: in every metric, their 95 % interval overlaps "
            "this trial's interval"
        ),
    ]


class ChangedChoice(TypedDict):
    """A change of `study.choose` or `study.limits` after the start of the search."""

    key: Annotated[Literal["study.choose", "study.limits"], Field(description="the changed setting")]
    time: str
    before: Any
    after: Any
    trials: Annotated[Count, Field(description="number of trials that had ended at the time of the change")]
    is_test_open: bool


class Choice(TypedDict):
    """The choice of the winner from the front."""

    rule: Annotated[Any, Field(description="study.choose")]
    text: str
    changes: Annotated[list[ChangedChoice], Field(description="changes of `rule` after the start of the search")]


class ExpectedVolume(TypedDict):
    """Mean and standard deviation of the hypervolume over random searches of n trials, for each n in `budgets`."""

    orders: Annotated[
        int,
        Field(
            description="number of random orders of all trials (seed 0); the first n trials of each order are one "
            "random search of n trials; if there are at most this many different subsets of n trials, each subset is "
            "used once instead, and the values for this n are exact"
        ),
    ]
    budgets: list[int]
    means: list[float]
    spreads: list[float]


class Volume(TypedDict):
    """The growth of the front's hypervolume over the trials of the search; a larger hypervolume is better."""

    reference: Annotated[
        float, Field(description="the reference point's coordinate in each metric, after `scale` is applied")
    ]
    scale: Annotated[
        dict[str, list[float]],
        Field(
            description="by metric: the best value (scaled to 0) and the worst value (scaled to 1) of the complete "
            "trials within all limits"
        ),
    ]
    trials: Annotated[
        list[dict[str, float]], Field(description="trials that raised the hypervolume, and the hypervolume after each")
    ]
    expected: Annotated[
        ExpectedVolume | Missing,
        Field(description="hypervolume of a random search, estimated from the trials of this search"),
    ]


class FrontPart(TypedDict):
    """The metrics, limits and Pareto front of a study (in fields 8, 11, 12, 15 and 17 of the report).

    The report has this part only if the study has several metrics, has a limit, or had a change of its limits.
    """

    metrics: Annotated[dict[str, Aim], Field(description="by name; the leading metric comes first")]
    limits: list[LimitPart]
    limit_changes: Annotated[
        list[ChangedChoice], Field(description="changes of the limits after the start of the search")
    ]
    members: Annotated[list[Member], Field(description="the trials on the front, the best in the leading metric first")]
    near: Annotated[
        list[int],
        Field(
            description="dominated trials that may belong to the front, according to the 95 % intervals of the metrics"
        ),
    ]
    choice: Annotated[NotRequired[Choice], Field(description="absent with one metric")]
    complete: Count
    beyond_limits: Annotated[Count, Field(description="number of complete trials beyond a limit")]
    share_beyond_limits: Share | None
    hypervolume: Annotated[NotRequired[Volume | Missing], Field(description="absent with one metric")]


def front_of(report: ReportJson) -> FrontPart | None:
    """Return the report's section on the front; None if the report has no such section, or if the section failed."""
    front = report.get("front")
    return None if front is None or is_missing(front) else front


def goal_text(front: FrontPart) -> str:
    """Return metrics and limits in words: `accuracy (maximize) and parameters (minimize), within latency <= 5`."""
    return join_names([f"{name} ({aim['direction']})" for name, aim in front["metrics"].items()]) + limits_text(front)


def limits_text(front: FrontPart) -> str:
    """Return the limits as the end of a sentence, such as `, within latency <= 5`; empty without limits."""
    limits = [limit["text"] for limit in front["limits"]]
    return f", within {join_names(limits)}" if limits else ""


def aim_text(front: FrontPart, name: str) -> str:
    """Return a metric with its direction and limits: `parameters (minimize, <= 1e+06)`."""
    aims: list[str] = [front["metrics"][name]["direction"]] if name in front["metrics"] else []
    aims += [limit["text"].removeprefix(f"{name} ") for limit in front["limits"] if limit["metric"] == name]
    return f"{name} ({', '.join(aims)})" if aims else name


def names_of(front: FrontPart) -> list[str]:
    """Return the names of the metrics, then the names of the other numbers that have a limit."""
    return list(dict.fromkeys([*front["metrics"], *(limit["metric"] for limit in front["limits"])]))


def value_format(report: ReportJson, name: str) -> Callable[[float], str]:
    """Return the function that formats the values of a metric, or of another value that is named in `Goal.names`.

    The function writes enough digits to distinguish the best trials.
    """
    front = front_of(report)
    members = [] if front is None else [member["scores"][name]["mean"] for member in front["members"]]
    values = [*members, *(trial["scores"][name] for trial in report["top"])]
    return score_format(values)


def trials_text(numbers: Sequence[int]) -> str:
    """Return trial numbers as text. If there are many, the text has the first numbers and the count of the others."""
    more = len(numbers) - _MOST_TRIALS
    texts = [*map(str, numbers[:_MOST_TRIALS]), *([f"{more} more"] if more > 0 else ())]
    return f"{'trial' if len(numbers) == 1 else 'trials'} {join_names(texts)}"
