"""The schema of report.json: what the sections return, the renderers take, and `hpo report --schema` prints.

Scores are in the metric's own unit, times in seconds. A value that could not be filled is `{"missing": "the reason"}`.
"""

from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field, TypeAdapter, with_config
from typing_extensions import TypedDict

from hpo.engine.course.course import EndedBy
from hpo.engine.course.rules import Counts as Counted
from hpo.engine.trials.trial import State
from hpo.report.facts.schema.missing import EXACT, OPEN, Missing, Text
from hpo.report.facts.schema.results import (
    AtEnd,
    BestSoFar,
    Cost,
    Count,
    Curves,
    ExpectedPart,
    FinalistPart,
    Importance,
    Overtuning,
    Point,
    Positive,
    ReproductionPart,
    Short,
    TestPart,
    Winner,
)

# Increases with every change of report.json that affects a reader.
FORMAT: Literal[2] = 2


@with_config(EXACT)
class Budget(TypedDict):
    """What was fixed before the search."""

    trials: Positive
    repeats: Annotated[Positive, Field(description="seeds per fold")]
    hours: str
    trial_minutes: NotRequired[Annotated[float, Field(description="limit of one training; a longer one has failed")]]
    stop_without_gain: NotRequired[Annotated[Positive, Field(description="trials in a row that were not better")]]


@with_config(EXACT)
class ExtendedPart(TypedDict):
    """A trial that trained one of another study further, or anew."""

    number: int
    before: Annotated[int, Field(description="its number in the other study")]
    score_before: float
    score: float | None
    gain: Annotated[float | None, Field(description="of the score; above 0 is better, whatever the direction")]
    continued: Annotated[bool, Field(description="whether it went on from the state of the trial before")]


@with_config(EXACT)
class ExtensionPart(TypedDict):
    """The study whose best trials this one trained with other settings."""

    study: str
    changes: Annotated[dict[str, list[Any]], Field(description="the value before and now, by key")]
    trials: list[ExtendedPart]


@with_config(EXACT)
class CodePart(TypedDict):
    """The code that decided the trials, without docstrings and comments."""

    pieces: Annotated[
        dict[str, str], Field(description="hash of each file of the objective, and of the toolkit's parts")
    ]
    versions: Annotated[dict[str, str], Field(description="of Python and the libraries that compute points and scores")]


@with_config(EXACT)
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
    allowed_changes: Annotated[list[dict[str, Any]], Field(description="what had changed when it was resumed anyway")]
    rerun: Annotated[str, Field(description="the command that runs the search again")]
    code: NotRequired[Annotated[CodePart, Field(description="what `hpo reproduce` compares; earlier versions lack it")]]
    reproduction: NotRequired[Annotated[ReproductionPart, Field(description="absent where none was tried")]]
    extends: NotRequired[Annotated[ExtensionPart, Field(description="the study that `hpo extend` made this one from")]]


@with_config(OPEN)
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


@with_config(EXACT)
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


@with_config(EXACT)
class MethodPart(TypedDict):
    """Fields 1, 4 and 8: what the objective says of every training."""

    preprocessing: Text
    vocabulary: Text
    checkpoint: Text
    determinism: Text
    metrics: dict[str, str]


@with_config(EXACT)
class MetricPart(TypedDict):
    """Field 8."""

    name: str
    definition: Text
    direction: Literal["maximize", "minimize"]
    aggregation: str
    checkpoint: Text


@with_config(EXACT)
class Sizes(TypedDict):
    """Field 7; the number of each trial is in trials.csv."""

    column: str
    smallest: Count
    median: Count
    largest: Count


@with_config(EXACT)
class Counts(TypedDict):
    """Field 11."""

    budget: Count
    ended_by: NotRequired[Annotated[EndedBy, Field(description="the budget that was reached first; or the space")]]
    budget_counts: NotRequired[Annotated[Counted, Field(description="what the budget counts; else trials")]]
    configurations: NotRequired[Annotated[Count, Field(description="different points among those proposed")]]
    further_trained: NotRequired[Annotated[list[int], Field(description="trials taken to their end after the search")]]
    tasks_per_trial: Annotated[Positive, Field(description="folds times repeats")]
    proposed: Count
    complete: Count
    failed: Count
    stopped: Annotated[Count, Field(description="by a race after their first folds, or by the stop rule")]
    tasks_saved: Count
    running: Count
    failures: Annotated[dict[str, int], Field(description="reason: how often")]


class DefaultTrial(TypedDict):
    """The default configuration's trial."""

    number: int
    score: float | None
    state: State
    amount: NotRequired[Annotated[int | None, Field(description="how far it was trained")]]
    values: NotRequired[Annotated[dict[str, float], Field(description="score of each fold and seed")]]


@with_config(EXACT)
class Baselines(TypedDict):
    """Field 13."""

    default: DefaultTrial | Missing
    random: dict[str, Any] | Missing


@with_config(EXACT)
class FieldStatus(TypedDict):
    """One of the 25 fields: where its values are, and what of them is missing."""

    number: Annotated[int, Field(ge=1, le=25)]
    title: str
    keys: list[str]
    missing: dict[str, str]


@with_config(EXACT)
class GivenPoint(TypedDict):
    """A point that a hand gave to the search, and the number of trials that were opened before it came."""

    point: Point
    after: Count


class SpacePart(TypedDict):
    """Field 9: what was searched."""

    space: Annotated[list[dict[str, Any]] | Missing, Field(description="field 9: every dimension")]
    space_size: Annotated[int | Missing | None, Field(description="number of points; null = infinite")]
    space_rules: list[str] | Missing
    first: list[Point] | Missing


class SearchPart(SpacePart):
    """Fields 7 and 9 to 12: what was searched, by what, and how many trials there were."""

    num_parameters: Sizes | Missing
    given: NotRequired[
        Annotated[
            list[GivenPoint] | Missing,
            Field(description="points that a hand gave to the search"),
        ]
    ]
    fixed: dict[str, Any] | Missing
    strategy: Annotated[dict[str, Any], Field(description="field 10: name, settings, rounds_run")]
    counts: Counts | Missing
    imported: Annotated[
        Count | Missing, Field(description="trials of another study that the strategy knew from the start")
    ]
    chosen_by: Annotated[str | Missing, Field(description="field 12")]


@with_config(EXACT)
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
