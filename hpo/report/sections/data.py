"""Fields 3 to 6 and 8 of the report.

Field 3 names the data, and field 4 describes the data's preparation. Fields 5 and 6 describe the split and the folds.
Field 8 defines the metric.
"""

import json
from collections.abc import Iterator
from typing import Annotated, Any, Literal, cast

from pydantic import Field
from typing_extensions import TypedDict

from hpo.formatting import format_count
from hpo.report.part import Block, Items, Missing, Paragraph, Table, Text, is_missing, missing, require
from hpo.report.sections import ReportJson
from hpo.study.basis.units import Units
from hpo.study.study import PreparedStudy
from hpo.workers.objective.path import GIVEN_DATA
from hpo.workers.training.splits import duplicates_text


class SplitPart(TypedDict):
    """Fields 5 and 6 of the report: the split of the examples."""

    kind: str
    seed: int
    folds: Annotated[list[dict[str, Any]], Field(description="number of training and validation examples of each fold")]
    parts: Annotated[
        dict[str, dict[str, Any]],
        Field(description="size, fraction of all examples, fingerprint and label counts of each split"),
    ]
    duplicates: Annotated[
        dict[str, int],
        Field(
            description="by pair of splits, such as `test in train`: number of the first split's examples whose "
            "content is also in the second split"
        ),
    ]
    is_test_within_reach: Annotated[
        bool,
        Field(description="true = the objective reads the data in every training, and could read test examples"),
    ]


class DataPart(TypedDict):
    """Values of the report's fields 3 to 6: the data, the preparation, the split and the folds."""

    name: Text
    version: Text
    source: Text
    licence: Text
    exclusions: Text
    files: Annotated[list[dict[str, Any]] | Text, Field(description="path, sha256 and bytes of each file")]
    size: Annotated[int | None, Field(description="number of examples")]
    notes: Annotated[list[str], Field(description="notes on reading the data, such as on truncated examples")]
    split: SplitPart | Missing


class MethodPart(TypedDict):
    """The objective's descriptions of its trainings (fields 1, 4 and 8 of the report)."""

    preprocessing: Text
    vocabulary: Text
    checkpoint: Text
    determinism: Text
    metrics: dict[str, str]


class MetricPart(TypedDict):
    """Field 8 of the report: the metric."""

    name: str
    definition: Text
    direction: Literal["maximize", "minimize"]
    aggregation: str
    checkpoint: Text


_NO_DESCRIPTION = "the objective brings its own data (its module has no describe_data)"


def describe_data(study: PreparedStudy) -> DataPart:
    """Return the name, source, files and split of the data; an unknown value is a `Missing` with the reason."""
    given, name, described = study.config.report, study.reference, study.described
    absent = missing(_NO_DESCRIPTION)
    files: list[dict[str, Any]] | str | Missing = [dict(file) for file in described.files or ()]
    pickled = study.objective.pickled
    if not files and pickled is not None and pickled.rows is not None and pickled.rows.has_rows:
        files = f"no files: the rows were given from Python, and are stored in {GIVEN_DATA} of the study's folder"
    elif not files:
        files = absent if described.split is None else "no files: the data is part of a library, or is generated"
    is_within_reach = "test" in described.parts and study.objective.prepare_data is None
    of_split = {"seed": study.config.split.seed, "is_test_within_reach": is_within_reach}
    return {
        "name": absent if described.name is None else described.name,
        "version": given.data_version or described.version or _not_given(name, "data_version"),
        "source": given.data_source or described.source or _not_given(name, "data_source"),
        "licence": given.data_licence or described.licence or _not_given(name, "data_licence"),
        "exclusions": given.exclusions or _not_given(name, "exclusions"),
        "files": files,
        "size": described.size,
        "notes": list(described.notes),
        "split": absent if described.split is None else cast("SplitPart", {**described.split, **of_split}),
    }


def describe_method(study: PreparedStudy) -> MethodPart:
    """Return the report's section on the method: the objective's descriptions of its trainings.

    If the objective gives no description for a field, the field is a `Missing` with the reason.
    """
    described = study.described.method
    reason = f"{study.objective.owner} does not describe this value in describe_method"
    values = {key: described[key] for key in MethodPart.__annotations__ if described.get(key)}
    return cast("MethodPart", {**no_method(reason), **values})


def no_method(reason: str) -> MethodPart:
    """Return the section on the method of a study whose method is unknown.

    Every text of the section is missing, and `reason` says why. The section defines no metrics.
    """
    return cast("MethodPart", dict.fromkeys(MethodPart.__annotations__, missing(reason)) | {"metrics": {}})


def describe_metric(study: PreparedStudy, method: MethodPart) -> MetricPart:
    """Return the definition, direction and aggregation of the metric; with several metrics, of the leading one."""
    config = study.config.study
    definition = method["metrics"].get(config.metric)
    unit = Units.of(study.described.method, study.config.objective)[config.metric]
    if definition and unit.depends_on:
        settings = ", ".join(f"{key}={json.dumps(value)}" for key, value in unit.depends_on.items())
        definition += f"; unit: {unit.unit}, with {settings}"
    reason = f"{study.objective.owner}.describe_method defines no metric '{config.metric}'"
    over = [format_count(study.num_folds, "fold*"), f"{format_count(config.repeats, 'seed*')} each"]
    return {
        "name": config.metric,
        "definition": definition or missing(reason),
        "direction": config.direction,
        "aggregation": f"mean over {' and '.join(over)}",
        "checkpoint": method["checkpoint"],
    }


def _not_given(name: str, key: str) -> Missing:
    return missing(f'not given; set it with hpo report {name} report.{key}="..."')


def read_data(report: ReportJson) -> Iterator[Block]:
    """Yield the data's name, source, notes and split; without a split, yield only why it is missing."""
    data = require(report["data"])
    split = data["split"]
    if is_missing(split):
        yield Paragraph(f"There is no split: {split['missing']}.")
        return
    source = "" if is_missing(data["source"]) else f" {data['source']}"
    yield Paragraph(f"{data['name']}: {data['size']:,} examples.{source}")
    yield Items(data["notes"])
    rows = [
        (name, f"{part['size']:,}", f"{part['fraction']:.1%}", part["fingerprint"][:12])
        for name, part in split["parts"].items()
    ]
    yield Table(("split", "examples", "share", "fingerprint"), rows)
    text = f"Validation: {kind_text(split)}; train / validation: {folds_text(split)}."
    twice = duplicates_text(split["duplicates"])
    yield Paragraph(f"{text}\nExamples in two splits: {twice}." if twice else text)


def kind_text(split: SplitPart) -> str:
    """Return the kind and the seed of the split."""
    return f"{split['kind'].replace('_', ' ')}, seed {split['seed']}"


def folds_text(split: SplitPart) -> str:
    """Return the numbers of training and validation examples of each fold as text."""
    return ", ".join(f"{fold['train']:,} / {fold['validation']:,}" for fold in split["folds"])
