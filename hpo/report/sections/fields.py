"""The 25 fields that a study's report must contain, and which of them could not be filled.

report.json holds `{"missing": "reason"}` for a value that cannot be filled.

Source: the checklists of Dodge et al. 2019 (arXiv 1909.03004), Dodge et al. 2021 (2110.00613), ACL 2021, the machine
learning reproducibility checklist v2, Lindauer & Hutter 2020 (JMLR 21(243)), Bouthillier et al. 2021 (2103.03098) and
Schneider et al. 2025 (2506.19540), put together.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, with_config
from typing_extensions import TypedDict

from hpo.report.blocks import Block, Items, Paragraph
from hpo.report.part import EXACT, reason_missing

if TYPE_CHECKING:
    from hpo.report.sections.report import ReportJson


@dataclass(frozen=True)
class ReportField:
    """One field.

    Attributes:
        number: 1 to 25.
        group: which part of the report it belongs to.
        title: what it holds.
        keys: dotted keys of its values in report.json.
    """

    number: int
    group: str
    title: str
    keys: tuple[str, ...]


FIELDS = (
    ReportField(
        1,
        "Study",
        "Identity, dates, code, versions, determinism",
        (
            *("study.id", "study.title", "study.started", "study.ended", "environment.commit", "environment.is_dirty"),
            *("environment.python", "environment.packages", "environment.cuda", "environment.driver"),
            "method.determinism",
        ),
    ),
    ReportField(2, "Study", "Budget fixed in advance; exploratory or confirmatory", ("study.budget", "study.intent")),
    ReportField(
        3,
        "Data",
        "Name, version, source, licence, SHA-256 per file",
        ("data.name", "data.version", "data.source", "data.licence", "data.files"),
    ),
    ReportField(
        4,
        "Data",
        "Preprocessing, exclusions, vocabulary",
        ("method.preprocessing", "data.exclusions", "method.vocabulary"),
    ),
    ReportField(5, "Data", "Split: kind, seed, fingerprints, sizes, labels, duplicates", ("data.split",)),
    ReportField(6, "Data", "Folds and their sizes", ("data.split.folds",)),
    ReportField(7, "Model and metric", "Number of parameters", ("num_parameters",)),
    ReportField(
        8,
        "Model and metric",
        "Metric, direction, aggregation, checkpoint",
        ("metric.name", "metric.definition", "metric.direction", "metric.aggregation", "metric.checkpoint"),
    ),
    ReportField(9, "Search", "Every dimension, and what was held fixed", ("space", "space_rules", "fixed")),
    ReportField(10, "Search", "Strategy, its settings, seed, proposals", ("strategy", "study.seed")),
    ReportField(11, "Search", "Trials proposed, finished, failed, stopped early", ("counts",)),
    ReportField(12, "Search", "How the winner is chosen", ("chosen_by",)),
    ReportField(13, "Search", "Baselines at equal budget", ("baselines.default", "baselines.random")),
    ReportField(14, "Results", "The winner as a configuration that runs", ("winner.config", "winner.run")),
    ReportField(
        15, "Results", "Validation score with its spread", ("winner.score", "winner.values", "winner.interval")
    ),
    ReportField(16, "Results", "Test score, and how often the test part was opened", ("test",)),
    ReportField(17, "Results", "Best so far; expected validation performance", ("best_so_far", "expected_performance")),
    ReportField(18, "Results", "The table of all trials", ("files",)),
    ReportField(19, "Results", "Learning curves", ("curves",)),
    ReportField(20, "Results", "Importance of hyperparameters", ("importance",)),
    ReportField(21, "Results", "Whether the best lies at the end of a range", ("at_the_end",)),
    ReportField(
        22,
        "Results",
        "Overtuning",
        ("overtuning.default_on_test", "overtuning.gap", "finalists"),
    ),
    ReportField(23, "Comparison", "Repeated searches: which strategy is better", ("comparison",)),
    ReportField(
        24, "Cost", "Hardware, time, idle and overhead share", ("cost", "environment.processor", "environment.gpus")
    ),
    ReportField(25, "Cost", "Failures, limits, and the command that runs it again", ("cautions", "study.rerun")),
)


def value_at(summary: Mapping[str, Any], key: str) -> Any:
    """Return the value at a dotted key; if a branch above it is missing, that branch."""
    value: Any = summary
    for name in key.split("."):
        if reason_missing(value) is not None:
            return value
        value = value[name]
    return value


def missing_values(summary: Mapping[str, Any], field: ReportField) -> dict[str, str]:
    """Return the reason by the key of each value of the field that is missing."""
    reasons = {key: reason_missing(value_at(summary, key)) for key in field.keys}
    return {key: reason for key, reason in reasons.items() if reason is not None}


@with_config(EXACT)
class FieldStatus(TypedDict):
    """One of the 25 fields: where its values are, and what of them is missing."""

    number: Annotated[int, Field(ge=1, le=25)]
    title: str
    keys: list[str]
    missing: dict[str, str]


def read_gaps(report: "ReportJson") -> Iterator[Block]:
    """Yield every value that is missing, by field."""
    lines = [
        f"**{field['number']} {field['title']}**: `{key}`: {reason}"
        for field in report["fields"]
        for key, reason in field["missing"].items()
    ]
    yield Items(lines) if lines else Paragraph("Nothing: all 25 fields are filled.")
