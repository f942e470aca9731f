"""What report.json holds of results and cost, key by key."""

from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field, with_config
from typing_extensions import TypedDict

from hpo.report.facts.schema.missing import EXACT, OPEN, Missing

Point = dict[str, int | float | str | bool | list[Any] | dict[str, Any] | None]
Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(ge=0)]


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
class ReproductionPart(TypedDict):
    """What the last `hpo reproduce` of the study where it was made found."""

    time: str
    trials: Annotated[list[int], Field(min_length=1, description="those that were trained again")]
    folds: Annotated[list[int] | None, Field(description="the only ones; null = all")]
    trainings: Positive
    differing: Annotated[Count, Field(description="of the trainings")]
    differing_numbers: Annotated[Count, Field(description="of report.json, which are not what the trainings give")]
    tolerance: Annotated[float, Field(ge=0, lt=1, description="the share of a score that was no difference")]
    changes: Annotated[list[str], Field(description="what had changed since the study's start")]


@with_config(EXACT)
class Short(TypedDict):
    """One trial of the best."""

    number: Count
    score: float
    point: Point
    amount: NotRequired[Annotated[int, Field(description="how far it was trained, where amounts differ")]]


@with_config(OPEN)
class TestPart(TypedDict):
    """Field 16: what `hpo test` wrote down; earlier versions wrote fewer keys."""

    time: str
    trial: int
    metrics: dict[str, float]
    size: int
    validation_score: float
    openings_of_these_data: int
    default: NotRequired[dict[str, Any] | None]


@with_config(EXACT)
class BestSoFar(TypedDict):
    """Field 17: every improvement, in the order of proposal and in the order of time."""

    trials: list[dict[str, float]]
    seconds: list[dict[str, float]]


class Expected(TypedDict):
    """One estimate of the expected best score: mean and standard deviation over searches of n trials."""

    estimator: str
    budgets: list[int]
    means: list[float]
    spreads: list[float]


class ExpectedPart(TypedDict):
    """Field 17: both estimates."""

    biased: Expected
    unbiased: Expected


class Curves(TypedDict):
    """Field 19: the winner's learning curve of each task."""

    trial: int
    tasks: dict[str, list[dict[str, float]]]


class Contributed(TypedDict):
    """What a hyperparameter contributes to the winner's gain over the default: above 0 is better."""

    gain: float
    low: float
    high: float


class Importance(TypedDict):
    """Field 20: shares that sum to 1, and contributions in the units of the metric."""

    evaluator: str
    values: dict[str, float]
    shapley: NotRequired[
        Annotated[dict[str, Contributed] | Missing, Field(description="HyperSHAP, with the middle 95 % of the fits")]
    ]


class AtEnd(TypedDict):
    """Field 21: a best value at an end of its range."""

    key: str
    value: int | float | str | bool | None
    end: str


class OnTest(TypedDict):
    """Default and winner on the test part; a gain above 0 = the winner is better."""

    default: float
    winner: float
    gain: float


@with_config(EXACT)
class Overtuning(TypedDict):
    """Field 22."""

    gap: Annotated[float | Missing, Field(description="validation less test, above 0 = validation was too good")]
    default_on_test: OnTest | Missing


class FinalistPart(TypedDict):
    """A trial that was trained again on fresh seeds."""

    number: int
    search_score: float | None
    fresh_score: float | None
    fresh_standard_deviation: float | None
    fresh_values: list[float]
    error: str | None


@with_config(EXACT)
class Prediction(TypedDict):
    """How well the cost of a trial, on the study's clock, predicts its seconds."""

    correlation: Annotated[float | None, Field(description="of the logarithms; null where all costs are the same")]
    sigma: Annotated[float, Field(description="standard deviation of log(seconds / cost)")]
    factor: Annotated[float, Field(description="exp(sigma): two of three trials lie within it")]


@with_config(EXACT)
class Cost(TypedDict):
    """Field 24."""

    training_seconds: Seconds
    seconds_per_trial_mean: float | None
    seconds_per_trial_median: float | None
    wall_seconds: Annotated[float | None, Field(description="first start to last end, without pauses of the search")]
    workers_seen: Annotated[Count, Field(description="at once")]
    device: str
    device_hours: Seconds
    idle_share: Share | None
    overhead_share: Share | None
    lanes: NotRequired[Annotated[int | None, Field(description="trainings planned to be under way at once")]]
    order: NotRequired[Annotated[Literal["clock", "free"] | None, Field(description="null before there was a clock")]]
    prediction: NotRequired[Prediction | None]
