"""The 25 fields that a study's report must contain, and the reasons why values of fields are missing.

In report.json, `{"missing": "reason"}` replaces a missing value.

Source: a union of the checklists of Dodge et al. 2019 (arXiv 1909.03004), Dodge et al. 2021 (2110.00613), ACL 2021, the
machine learning reproducibility checklist v2, Lindauer & Hutter 2020 (JMLR 21(243)), Bouthillier et al. 2021
(2103.03098) and Schneider et al. 2025 (2506.19540).
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import Field
from typing_extensions import TypedDict

from hpo.report.part import Block, Items, Paragraph, reason_missing
from hpo.report.sections import ReportJson
from hpo.report.sections.goal import front_of


class FieldStatus(TypedDict):
    """One of the 25 fields of a report: the keys of the field's values, and the reason for each missing value."""

    number: Annotated[int, Field(ge=1, le=25)]
    title: str
    keys: list[str]
    missing: dict[str, str]


FIELDS = {
    "Identity, dates, code, versions, determinism": (
        "study.id study.title study.started study.ended environment.commit environment.is_dirty "
        "environment.python environment.packages environment.cuda environment.driver method.determinism"
    ),
    "Budget fixed in advance; whether the study is exploratory or confirmatory": "study.budget study.intent",
    "Name, version, source, licence, SHA-256 per file": "data.name data.version data.source data.licence data.files",
    "Preprocessing, exclusions, vocabulary": "method.preprocessing data.exclusions data.notes method.vocabulary",
    "Split: kind, seed, fingerprints, sizes, labels, duplicates": "data.split",
    "Folds and their sizes": "data.split.folds",
    "Number of parameters": "num_parameters",
    "Metric, direction, aggregation, checkpoint": (
        "metric.name metric.definition metric.direction metric.aggregation metric.checkpoint"
    ),
    "Every dimension, and the fixed settings": "space space_rules fixed",
    "Strategy, its settings, seed, proposals": "strategy study.seed",
    "Trials proposed, finished, failed, stopped early, imported": "counts imported",
    "How the winner is chosen": "chosen_by",
    "Baselines at equal budget": "baselines.default baselines.random",
    "The winner's configuration and run": "winner.config winner.run",
    "Validation score with its spread": "winner.score winner.values winner.expected",
    "Test score, and number of test evaluations": "test",
    "Best score so far; expected best score of a random search": "best_so_far expected_performance",
    "The table of all trials": "files",
    "Learning curves": "curves",
    "Importance of hyperparameters": "importance",
    "Hyperparameters whose best value is at an end of their range": "at_the_end",
    "Overtuning": "overtuning.default_on_test overtuning.gap finalists",
    "Repeated searches: which strategy is better": "comparison",
    "Hardware, time, idle share, overhead share": "cost environment.processor environment.gpus",
    "Failures, limits, and the command that repeats the search": "cautions study.rerun",
}
"""For each field's title, the dotted keys of its values in report.json. A field's number is its position, from 1."""

OF_FRONT = {
    8: "front.metrics front.limits",
    11: "front.beyond_limits front.share_beyond_limits",
    15: "winner.scores front.members front.near",
}
OF_SEVERAL = {12: "front.choice", 17: "front.hypervolume", 20: "importance.by_metric"}
OF_SCALES = {11: "scales.each", 17: "scales.law", 20: "scales.transfer scales.choices"}
"""Keys that some reports have in addition to the keys in `FIELDS`.

The numbers are the fields' positions in `FIELDS`, from 1. For example, `front.choice` belongs to the 12th field.

If a report has a front, it has the keys in `OF_FRONT`. If the study has several metrics, the report has the keys in
`OF_SEVERAL`. If the study has scales, the report has the keys in `OF_SCALES`.
"""


def describe_fields(report: ReportJson) -> list[FieldStatus]:
    """Return each field with the keys of its values, and the reason for each missing value."""
    front = front_of(report)
    has_several = front is not None and "choice" in front
    further = (("front" in report, OF_FRONT), (has_several, OF_SEVERAL), ("scales" in report, OF_SCALES))
    tables = [table for applies, table in further if applies]
    described: list[FieldStatus] = []
    for number, (title, listed) in enumerate(FIELDS.items(), start=1):
        keys = " ".join([listed, *(table.get(number, "") for table in tables)]).split()
        reasons = {key: reason for key in keys if (reason := reason_missing(value_at(report, key))) is not None}
        described.append({"number": number, "title": title, "keys": keys, "missing": reasons})
    return described


def value_at(report: Mapping[str, Any], key: str) -> Any:
    """Return the value at a dotted key, such as `test.score`.

    If the value at a shorter key, such as `test`, is an entry `{"missing": reason}`, return this entry.
    """
    value: Any = report
    for name in key.split("."):
        if reason_missing(value) is not None:
            return value
        value = value[name]
    return value


def read_gaps(report: ReportJson) -> Iterator[Block]:
    """Yield a list of the report's missing values, each with its field and the reason.

    If no value is missing, yield a sentence that says so.
    """
    lines = [
        f"**{field['number']} {field['title']}**: `{key}`: {reason}"
        for field in report["fields"]
        for key, reason in field["missing"].items()
    ]
    yield Items(lines) if lines else Paragraph("None: all 25 fields are complete.")
