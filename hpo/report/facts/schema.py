"""What report.json holds, key by key: its schema. `hpo report --schema` prints it as JSON Schema.

Scores are in the metric's own unit, times in seconds. A value that could not be filled is `{"missing": "the reason"}`.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Point = dict[str, int | float | str | bool | None]
Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=0)]


class Part(BaseModel):
    """Base of all parts: no key that is not described here."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Missing(Part):
    """Stands for a value that could not be filled."""

    missing: str = Field(min_length=1, description="why, and what would fill it")


Text = str | Missing


class Budget(Part):
    """What was fixed before the search."""

    trials: int = Field(ge=1)
    repeats: int = Field(ge=1, description="seeds per fold")
    hours: str


class StudyPart(Part):
    """Fields 1, 2 and 25: what the study is."""

    name: str
    id: str | None
    title: Text
    started: Text = Field(description="first training, UTC")
    ended: Text = Field(description="last training, UTC")
    seed: Count
    objective: str
    budget: Budget
    intent: Literal["exploratory", "confirmatory"]
    allowed_changes: list[dict[str, Any]] = Field(description="what had changed when it was resumed all the same")
    rerun: str = Field(description="the command that runs the search again")


class EnvironmentPart(BaseModel):
    """Fields 1 and 24: versions, machine and code at the study's start. Earlier versions wrote fewer keys."""

    model_config = ConfigDict(extra="allow", strict=True)

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


class DataPart(Part):
    """Fields 3 to 6."""

    name: Text
    version: Text
    source: Text
    licence: Text
    exclusions: Text
    files: list[dict[str, Any]] | Text = Field(description="path, sha256 and bytes of each")
    size: int | None = Field(description="examples")
    split: dict[str, Any] | Missing = Field(
        description="kind, seed, folds (training and validation examples of each), duplicates between parts, and "
        "parts: size, fraction of all examples, fingerprint, labels (count of each)"
    )


class MethodPart(Part):
    """Fields 1, 4 and 8: what the objective says of every training."""

    preprocessing: Text
    vocabulary: Text
    checkpoint: Text
    determinism: Text
    metrics: dict[str, str]


class MetricPart(Part):
    """Field 8."""

    name: str
    definition: Text
    direction: Literal["maximize", "minimize"]
    aggregation: str
    checkpoint: Text


class Sizes(Part):
    """Field 7; the number of each trial stands in trials.csv."""

    column: str
    smallest: Count
    median: Count
    largest: Count


class Counts(Part):
    """Field 11."""

    budget: Count
    tasks_per_trial: int = Field(ge=1, description="folds times repeats")
    proposed: Count
    complete: Count
    failed: Count
    stopped: Count = Field(description="by a race, after their first folds")
    tasks_saved: Count
    running: Count
    failures: dict[str, int] = Field(description="reason: how often")


class Baselines(Part):
    """Field 13."""

    default: dict[str, Any] | Missing = Field(description="number, score and state of the default's trial")
    random: dict[str, Any] | Missing


class Winner(Part):
    """Fields 14 and 15."""

    number: Count
    round: Count
    point: Point
    amount: int | None = Field(description="how far it was trained; null = all of its training")
    score: float = Field(description="mean of `values`")
    values: dict[str, float] = Field(description="score of each fold and seed, by its column in trials.csv")
    n: int = Field(ge=1)
    standard_deviation: float | None = Field(description="of `values`, with n - 1; null for one value")
    interval: list[float] | Missing = Field(description="95 % interval of the mean by Student's t")
    num_parameters: int | None
    config: str
    model: dict[str, Any] | None
    run: dict[str, Any] = Field(description="how its run is found in the tracker")


class Short(Part):
    """One trial of the best."""

    number: Count
    score: float
    point: Point


class BestSoFar(Part):
    """Field 17: every improvement, in the order of proposal and in the order of time."""

    trials: list[dict[str, float]]
    seconds: list[dict[str, float]]


class Overtuning(Part):
    """Field 22."""

    gap: float | Missing = Field(description="validation less test, above 0 = validation was too good")
    default_on_test: dict[str, float] | Missing = Field(description="default, winner, gain (above 0 = winner better)")


class Cost(Part):
    """Field 24."""

    training_seconds: float = Field(ge=0)
    seconds_per_trial_mean: float | None
    seconds_per_trial_median: float | None
    wall_seconds: float | None = Field(description="first start to last end")
    workers_seen: Count
    device: str
    device_hours: float = Field(ge=0)
    idle_share: Share | None
    overhead_share: Share | None


class FieldStatus(Part):
    """One of the 25 fields: where it stands, and what of it is missing."""

    number: int = Field(ge=1, le=25)
    title: str
    keys: list[str]
    missing: dict[str, str]


class ReportJson(Part):
    """The whole of report.json."""

    format: Literal[2]
    study: StudyPart
    environment: EnvironmentPart
    data: DataPart
    method: MethodPart
    metric: MetricPart
    num_parameters: Sizes | Missing
    config: dict[str, Any] = Field(description="the frozen configuration; `hpo reproduce` needs no other file")
    space: dict[str, Any] | list[dict[str, Any]] = Field(description="field 9: every dimension")
    space_size: int | None = Field(description="number of points; null = infinite")
    space_rules: list[str]
    first: list[Point]
    fixed: dict[str, Any]
    strategy: dict[str, Any] = Field(description="field 10: name, settings, rounds_run")
    counts: Counts
    imported: Count = Field(description="trials of another study that the strategy knew from the start")
    chosen_by: str = Field(description="field 12")
    baselines: Baselines
    winner: Winner | Missing
    top: list[Short]
    test: dict[str, Any] | Missing = Field(description="field 16: metrics, size, time, trial, openings_of_these_data")
    best_so_far: BestSoFar
    expected_performance: dict[str, Any] = Field(description="field 17: `biased` and `unbiased`, or missing")
    curves: dict[str, Any] | Missing = Field(description="field 19: the winner's, by task")
    importance: dict[str, Any] | Missing = Field(description="field 20: `evaluator` and `values`, shares that sum to 1")
    at_the_end: list[dict[str, Any]] | Missing = Field(description="field 21: key, value, end")
    overtuning: Overtuning
    finalists: list[dict[str, Any]] | Missing
    comparison: dict[str, Any] | Missing = Field(description="field 23: repeats, standings and pairs of `hpo compare`")
    cost: Cost
    cautions: list[str] = Field(description="one line for every reason to doubt the result, the gravest first")
    files: dict[str, str] = Field(description="field 18: SHA-256 of trials.csv, config.yaml and the others, by name")
    fields: list[FieldStatus] = Field(min_length=25, max_length=25)
