"""Fields 9 and 20 of the report: the space, and the importance of each hyperparameter."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, NotRequired, cast

from pydantic import Field
from typing_extensions import TypedDict

from hpo.config.goals import SCALE
from hpo.config.keys import at, flatten
from hpo.formatting import format_value
from hpo.report.formatting import point_text
from hpo.report.part import Block, Items, Missing, Paragraph, Point, Table, is_missing, require
from hpo.report.sections import ReportJson
from hpo.report.subject import Subject
from hpo.study.study import PreparedStudy
from hpo.trials.space.dimensions import Dimension, describe


class SpacePart(TypedDict):
    """The search space (field 9 of the report)."""

    space: Annotated[list[dict[str, Any]] | Missing, Field(description="one entry for each dimension")]
    space_size: Annotated[int | Missing | None, Field(description="number of points; null = infinite")]
    space_rules: list[str] | Missing
    first: list[Point] | Missing


class Contributed(TypedDict):
    """A hyperparameter's contribution to the winner's gain over the default configuration.

    A contribution above 0 means that the winner's value of the hyperparameter is better than the default value.
    """

    gain: float
    low: float
    high: float


class Importance(TypedDict):
    """Field 20 of the report: the importance of each hyperparameter.

    `values` has each hyperparameter's share in the total importance; the shares sum to 1. `shapley` has each
    hyperparameter's contribution to the winner's gain over the default configuration, in the unit of the metric.
    """

    evaluator: str
    values: dict[str, float]
    significant: Annotated[
        NotRequired[list[str]],
        Field(description="hyperparameters whose share in `values` is significant in a permutation test"),
    ]
    shapley: Annotated[
        dict[str, Contributed] | Missing,
        Field(
            description="HyperSHAP values; each fit of a surrogate gives one estimate: `gain` is the mean of the "
            "estimates, and the middle 95 % of the estimates are between `low` and `high`"
        ),
    ]
    by_metric: Annotated[
        NotRequired[dict[str, dict[str, float] | Missing]],
        Field(description="`values` for each metric; absent if the study has one metric"),
    ]
    significant_by_metric: Annotated[
        NotRequired[dict[str, list[str]]],
        Field(description="hyperparameters with a significant share, by metric; absent if the study has one metric"),
    ]


_MISSING = object()


def describe_space(study: PreparedStudy) -> SpacePart:
    """Return the dimensions, the number of points, the rules, and the points that a search tries first."""
    space = study.space
    return {
        "space": [_dimension(d, flatten(study.config.objective_config)) for d in space.dimensions],
        "space_size": space.size,
        "space_rules": [constraint.text for constraint in space.constraints],
        "first": [dict(point) for point in space.first],
    }


def _dimension(dimension: Dimension, fixed: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entry of a dimension in report.json, including the dimension's default value if there is one."""
    described = describe(dimension)
    if "default" not in described and (default := at(fixed, dimension.key, _MISSING)) is not _MISSING:
        described["default"] = default
    return described


def describe_importance(subject: Subject) -> Importance | Missing:
    """Return the importances and the contributions, or the reason why they are missing."""
    known, parts = subject.importances, subject.contributions
    if is_missing(known):
        return known
    shapley = parts if is_missing(parts) else {key: cast("Contributed", vars(each)) for key, each in parts.items()}
    described: Importance = {
        "evaluator": "PED-ANOVA",
        "values": known.shares,
        "significant": known.significant,
        "shapley": shapley,
    }
    if len(subject.goal.metrics) > 1:
        by_metric = subject.importances_by_metric
        described["by_metric"] = {name: each if is_missing(each) else each.shares for name, each in by_metric.items()}
        described["significant_by_metric"] = {
            name: each.significant for name, each in by_metric.items() if not is_missing(each)
        }
    return described


def describe_range(dimension: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return texts about a dimension of report.json: its key, its kind, and its range with condition and default."""
    if dimension["kind"] == "range":
        scale = " (log)" if dimension["log"] else ""
        number = "whole numbers " if dimension["integer"] else ""
        text = f"{number}{format_value(dimension['low'])} to {format_value(dimension['high'])}{scale}"
    else:
        text = ", ".join(format_value(value) for value in dimension["values"])
    conditions = dimension.get("when", {}).items()
    when = "".join(f"; when {key} is {' or '.join(map(format_value, values))}" for key, values in conditions)
    # None in the configuration is no default, unless None is one of the values.
    given = dimension.get("default") is not None or ("default" in dimension and None in dimension.get("values", ()))
    # The scale shows no default, because the default configuration is compared at the target.
    default = f"; default {format_value(dimension['default'])}" if given and dimension["key"] != SCALE else ""
    return dimension["key"], dimension["kind"], text + when + default


def read_space(report: ReportJson) -> Iterator[Block]:
    """Yield the range of every dimension, the number of points, the rules, the first points, and the fixed settings."""
    ranges = map(describe_range, require(report["space"]))
    yield Table(("hyperparameter", "kind", "range"), [(f"`{key}`", kind, text) for key, kind, text in ranges])
    yield Paragraph(f"Points: {report['space_size']:,}." if report["space_size"] else "Points: infinitely many.")
    yield Items(
        [
            *(f"rule: `{rule}`" for rule in require(report["space_rules"])),
            *(f"tried first: {point_text(point)}" for point in require(report["first"])),
        ]
    )
    if fixed := ", ".join(f"`{key}={format_value(value)}`" for key, value in require(report["fixed"]).items()):
        yield Paragraph(f"Fixed: {fixed}.")
