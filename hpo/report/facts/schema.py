"""The schema of report.json: what the sections return, the renderers take, and `hpo report --schema` prints.

Scores are in the metric's own unit, times in seconds. A value that could not be filled is `{"missing": "the reason"}`.
"""

from collections.abc import Mapping
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,  # pydantic reads no others under Python 3.11
)

from pydantic import ConfigDict, Field, TypeAdapter, with_config
from typing_extensions import TypedDict, TypeIs

from hpo.engine.trials.trial import State

Point = dict[str, int | float | str | bool | None]
Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(ge=0)]
# _EXACT allows only the keys that are described here; _OPEN also keys that only earlier versions wrote.
_EXACT = ConfigDict(extra="forbid", strict=True)
_OPEN = ConfigDict(extra="allow", strict=True)


@with_config(_EXACT)
class Missing(TypedDict):
    """Stands for a value that could not be filled."""

    missing: Annotated[str, Field(min_length=1, description="why, and what would fill it")]


Text = str | Missing


def is_missing(value: object) -> TypeIs[Missing]:
    """Return whether a value of report.json could not be filled."""
    return isinstance(value, Mapping) and list(value) == ["missing"]


@with_config(_EXACT)
class Budget(TypedDict):
    """What was fixed before the search."""

    trials: Positive
    repeats: Annotated[Positive, Field(description="seeds per fold")]
    hours: str


@with_config(_EXACT)
class StudyPart(TypedDict):
    """Fields 1, 2 and 25: what the study is."""

    name: str
    id: str | None
    title: Text
    started: Annotated[Text, Field(description="first training, UTC")]
    ended: Annotated[Text, Field(description="last training, UTC")]
    seed: Count
    objective: str
    budget: Budget
    intent: Literal["exploratory", "confirmatory"]
    allowed_changes: Annotated[
        list[dict[str, Any]], Field(description="what had changed when it was resumed all the same")
    ]
    rerun: Annotated[str, Field(description="the command that runs the search again")]


@with_config(_OPEN)
class EnvironmentPart(TypedDict):
    """Fields 1 and 24: versions, machine and code at the study's start. Earlier versions wrote fewer keys."""

    python: str
    platform: str
    processor: str
    cpus: int | None
    memory_bytes: int
    packages: dict[str, str]
    cuda: str
    driver: str
    gpus: list[str] | str
    commit: Text
    is_dirty: bool | Missing
    command: str


class SplitPart(TypedDict):
    """Fields 5 and 6: how the examples were divided."""

    kind: str
    seed: int
    folds: Annotated[list[dict[str, Any]], Field(description="training and validation examples of each")]
    parts: Annotated[
        dict[str, dict[str, Any]], Field(description="size, fraction of all, fingerprint, labels (count of each)")
    ]
    duplicates: Annotated[dict[str, int], Field(description="examples that are in two parts")]


@with_config(_EXACT)
class DataPart(TypedDict):
    """Fields 3 to 6."""

    name: Text
    version: Text
    source: Text
    licence: Text
    exclusions: Text
    files: Annotated[list[dict[str, Any]] | Text, Field(description="path, sha256 and bytes of each")]
    size: Annotated[int | None, Field(description="examples")]
    split: SplitPart | Missing


@with_config(_EXACT)
class MethodPart(TypedDict):
    """Fields 1, 4 and 8: what the objective says of every training."""

    preprocessing: Text
    vocabulary: Text
    checkpoint: Text
    determinism: Text
    metrics: dict[str, str]


@with_config(_EXACT)
class MetricPart(TypedDict):
    """Field 8."""

    name: str
    definition: Text
    direction: Literal["maximize", "minimize"]
    aggregation: str
    checkpoint: Text


@with_config(_EXACT)
class Sizes(TypedDict):
    """Field 7; the number of each trial is in trials.csv."""

    column: str
    smallest: Count
    median: Count
    largest: Count


@with_config(_EXACT)
class Counts(TypedDict):
    """Field 11."""

    budget: Count
    tasks_per_trial: Annotated[Positive, Field(description="folds times repeats")]
    proposed: Count
    complete: Count
    failed: Count
    stopped: Annotated[Count, Field(description="by a race, after their first folds")]
    tasks_saved: Count
    running: Count
    failures: Annotated[dict[str, int], Field(description="reason: how often")]


class DefaultTrial(TypedDict):
    """The default configuration's trial."""

    number: int
    score: float | None
    state: State


@with_config(_EXACT)
class Baselines(TypedDict):
    """Field 13."""

    default: DefaultTrial | Missing
    random: dict[str, Any] | Missing


@with_config(_EXACT)
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


@with_config(_EXACT)
class Short(TypedDict):
    """One trial of the best."""

    number: Count
    score: float
    point: Point


@with_config(_OPEN)
class TestPart(TypedDict):
    """Field 16: what `hpo test` wrote down; earlier versions wrote fewer keys."""

    time: str
    trial: int
    metrics: dict[str, float]
    size: int
    validation_score: float
    openings_of_these_data: int
    default: NotRequired[dict[str, Any] | None]


@with_config(_EXACT)
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


class Importance(TypedDict):
    """Field 20: shares that sum to 1."""

    evaluator: str
    values: dict[str, float]


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


@with_config(_EXACT)
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


@with_config(_EXACT)
class Cost(TypedDict):
    """Field 24."""

    training_seconds: Seconds
    seconds_per_trial_mean: float | None
    seconds_per_trial_median: float | None
    wall_seconds: Annotated[float | None, Field(description="first start to last end")]
    workers_seen: Count
    device: str
    device_hours: Seconds
    idle_share: Share | None
    overhead_share: Share | None


@with_config(_EXACT)
class FieldStatus(TypedDict):
    """One of the 25 fields: where its values are, and what of them is missing."""

    number: Annotated[int, Field(ge=1, le=25)]
    title: str
    keys: list[str]
    missing: dict[str, str]


class SearchPart(TypedDict):
    """Fields 7 and 9 to 12: what was searched, by what, and how many trials there were."""

    num_parameters: Sizes | Missing
    space: Annotated[list[dict[str, Any]] | Missing, Field(description="field 9: every dimension")]
    space_size: Annotated[int | Missing | None, Field(description="number of points; null = infinite")]
    space_rules: list[str] | Missing
    first: list[Point] | Missing
    fixed: dict[str, Any] | Missing
    strategy: Annotated[dict[str, Any], Field(description="field 10: name, settings, rounds_run")]
    counts: Counts | Missing
    imported: Annotated[
        Count | Missing, Field(description="trials of another study that the strategy knew from the start")
    ]
    chosen_by: Annotated[str | Missing, Field(description="field 12")]


@with_config(_EXACT)
class ReportJson(SearchPart):
    """The whole of report.json."""

    format: Literal[2]
    study: StudyPart
    environment: EnvironmentPart
    data: DataPart | Missing
    method: MethodPart
    metric: MetricPart
    config: Annotated[
        dict[str, Any], Field(description="the frozen configuration; `hpo reproduce` needs no other file")
    ]
    baselines: Baselines | Missing
    winner: Winner | Missing
    top: list[Short]
    test: TestPart | Missing
    best_so_far: BestSoFar | Missing
    expected_performance: ExpectedPart | Missing
    curves: Curves | Missing
    importance: Importance | Missing
    at_the_end: list[AtEnd] | Missing
    overtuning: Overtuning | Missing
    finalists: list[FinalistPart] | Missing
    comparison: Annotated[
        dict[str, Any] | Missing, Field(description="field 23: repeats, standings and pairs of `hpo compare`")
    ]
    cost: Cost | Missing
    cautions: Annotated[list[str], Field(description="one line for every reason to doubt the result, gravest first")]
    files: Annotated[
        dict[str, str], Field(description="field 18: SHA-256 of trials.csv, config.yaml and the others, by name")
    ]
    fields: Annotated[list[FieldStatus], Field(min_length=25, max_length=25)]


def report_schema() -> dict[str, Any]:
    """Return the JSON Schema of report.json."""
    return TypeAdapter(ReportJson).json_schema()


def refuse_bad_report(report: object) -> None:
    """Raise pydantic.ValidationError if the content does not fit the schema."""
    TypeAdapter(ReportJson).validate_python(report)
