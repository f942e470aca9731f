"""The report's section on scales: trials and cost of each scale, shifts of the best values, and the power law."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from hpo.formatting import format_value
from hpo.report.formatting import join_names, point_text
from hpo.report.part import (
    Block,
    Count,
    Items,
    Missing,
    Paragraph,
    Point,
    Positive,
    Share,
    Table,
    is_missing,
    missing,
    require,
)
from hpo.report.sections import ReportJson
from hpo.report.sections.scale_table import (
    BestOfScale,
    LawPart,
    ScaleTable,
    describe_law,
    law_text,
    read_table,
    scale_table,
)
from hpo.report.sections.winner import score_text
from hpo.report.subject import score_of
from hpo.report.transfer import ScaleResults, span_of, value_at
from hpo.trials.space.dimensions import Choices, Dimension, Range
from hpo.trials.space.space import Point as SpacePoint


class ScalePart(TypedDict):
    """The trials, the cost and the best trial of one scale."""

    number: Annotated[
        Positive, Field(description="number of the scale, from 1 for the smallest scale; the last scale is the target")
    ]
    changes: Annotated[Point, Field(description="settings that this scale changes in the configuration of the study")]
    complete: Annotated[
        Count, Field(description="number of complete trials, including imported trials of other studies")
    ]
    failed: Count
    best: Annotated[
        BestOfScale | None,
        Field(description="the best trial of the scale; scores of different scales are not comparable"),
    ]
    cost: Annotated[float | None, Field(description="mean cost of a training, divided by the cost at the first scale")]
    share_of_cost: Annotated[Share | None, Field(description="share of this scale in the total cost of the search")]
    share_of_seconds: Annotated[
        Share | None, Field(description="share of this scale in the total training time of the search")
    ]


class ShiftPart(TypedDict):
    """The shift of a hyperparameter's best value with each doubling of a training's cost.

    `shift_is` in `Transfer` names the unit of `value` and `interval`.
    """

    value: float
    interval: Annotated[
        list[float],
        Field(description="95 % interval of `value`, estimated by a fit to the better half of each scale's trials"),
    ]
    moves: Annotated[
        bool,
        Field(description="whether `interval` excludes the value that means no shift (1 for a factor, otherwise 0)"),
    ]
    is_known: Annotated[
        bool,
        Field(
            description="whether the fit shows how the best value shifts; true in two cases; first, the best value "
            "hardly shifts: at both ends of `interval`, the total shift from the cheapest to the most expensive scale "
            "is less than a quarter of the hyperparameter's range; second, the best value clearly shifts: `moves` is "
            "true, and at both ends of `interval` the total shift is at most the whole range"
        ),
    ]


class Transfer(TypedDict):
    """The best values of an ordered hyperparameter at each scale."""

    key: str
    shift_is: Annotated[
        Literal["factor", "difference", "steps"],
        Field(
            description="unit of `shift`: factor for a logarithmic range, difference for a linear range, steps for a "
            "list of values"
        ),
    ]
    best: Annotated[
        list[Any],
        Field(
            description="mean value of the hyperparameter in the best trials of each scale, weighted by the trials' "
            "ranks; null = no best trial has the hyperparameter"
        ),
    ]
    trials: Annotated[
        list[Count],
        Field(
            description="for each scale, number of complete trials that have the hyperparameter; trials with the same "
            "point count once"
        ),
    ]
    shift: ShiftPart | Missing


class Chosen(TypedDict):
    """The value of an unordered hyperparameter in each scale's best trial."""

    key: str
    best: Annotated[
        list[Any],
        Field(description="value at each scale; null = no trial is complete, or the best one lacks the hyperparameter"),
    ]


class ScalesPart(TypedDict):
    """The results of a study with scales (in fields 11, 17 and 20 of the report)."""

    each: list[ScalePart]
    transfer: list[Transfer]
    choices: list[Chosen]
    law: LawPart | Missing
    table: Annotated[
        NotRequired[ScaleTable],
        Field(
            description="scores by scale and by value of the hyperparameter; absent unless the study is a grid search "
            "of one ordered hyperparameter"
        ),
    ]
    expected: Annotated[
        NotRequired[Point],
        Field(
            description="the best point at the target, as predicted from smaller scales by the strategy `ladder`; "
            "absent without a prediction"
        ),
    ]


class ScalesSection(TypedDict):
    """The key `scales` of report.json."""

    scales: Annotated[NotRequired[ScalesPart | Missing], Field(description="absent without study.scales")]


def describe_scales(scale_results: ScaleResults, metric: str, expected: SpacePoint | None = None) -> ScalesPart:
    """Return each scale, the best values of each hyperparameter, and the power law of loss over cost.

    `expected` is the best point at the target, as predicted from the scales below the target.
    """
    table = scale_table(scale_results, metric)
    described: ScalesPart = {
        "each": [_scale(scale_results, place) for place in range(scale_results.target)],
        "transfer": [_transfer(scale_results, dimension) for dimension in scale_results.ordered],
        "choices": [
            {"key": d.key, "best": [ranked[0].point.get(d.key) if ranked else None for ranked in scale_results.ranked]}
            for d in scale_results.dimensions
            if isinstance(d, Choices)
        ],
        "law": describe_law(scale_results),
    }
    if table is not None:
        described["table"] = table
    if expected is not None:
        described["expected"] = dict(expected)
    return described


def _scale(scale_results: ScaleResults, place: int) -> ScalePart:
    ranked, costs, seconds = scale_results.ranked[place], scale_results.cost_shares, scale_results.second_shares
    states = Counter(trial.state for trial in scale_results.by_scale[place])
    return {
        "number": place + 1,
        "changes": dict(scale_results.changes[place]),
        "complete": states["complete"],
        "failed": states["failed"],
        "best": {"number": ranked[0].number, "score": score_of(ranked[0])} if ranked else None,
        "cost": scale_results.costs[place],
        "share_of_cost": costs[place] if costs else None,
        "share_of_seconds": seconds[place] if seconds else None,
    }


def _transfer(scale_results: ScaleResults, dimension: Dimension) -> Transfer:
    places, shift = scale_results.places(dimension), scale_results.shift(dimension)
    kind: Literal["factor", "difference", "steps"] = "steps"
    if isinstance(dimension, Range):
        kind = "factor" if dimension.log else "difference"
    span = span_of(dimension)

    def in_units(slope: float) -> float:
        return math.exp(slope * span) if kind == "factor" else slope * span

    part: ShiftPart | Missing
    if shift is None:
        part = missing("there are too few trials, or too few scales with a known cost, to estimate the shift")
    else:
        part = {
            "value": in_units(shift.slope),
            "interval": [in_units(shift.low), in_units(shift.high)],
            "moves": shift.moves,
            "is_known": shift.is_known,
        }
    return {
        "key": dimension.key,
        "shift_is": kind,
        "best": [None if place is None else value_at(dimension, place.mean) for place in places],
        "trials": [sum(dimension.key in trial.point for trial in ranked) for ranked in scale_results.ranked],
        "shift": part,
    }


def scales_of(report: ReportJson) -> ScalesPart | None:
    """Return the report's section on scales; None without study.scales, or if the section could not be made."""
    scales = report.get("scales")
    return None if scales is None or is_missing(scales) else scales


def scales_text(report: ReportJson) -> str:
    """Return a sentence with the number of complete trials at each scale; empty if `scales_of` returns None."""
    scales = scales_of(report)
    if scales is None:
        return ""
    each = [f"{one['complete']} at {point_text(one['changes'])}" for one in scales["each"]]
    return f" Complete trials by scale, from the smallest to the target: {'; '.join(each)}."


def read_scales(report: ReportJson) -> Iterator[Block]:
    """Yield the table of scales, the shifts of the best hyperparameter values, and the predicted loss at the target.

    Yield nothing if the report has no section on scales.
    """
    if "scales" not in report:
        return
    scales = require(report["scales"])
    if not scales["each"][-1]["complete"]:
        yield Paragraph("**No trial is complete at the target**: statements about the target are predictions.")
    yield _scales_table(report, scales)
    if "table" in scales:
        changes = [each["changes"] for each in scales["each"]]
        yield from read_table(scales["table"], changes, report["metric"]["name"])
    # If the report has a table of scales and values, leave out shifts that the fit cannot estimate: the table shows how
    # the best value moves.
    known = [each for each in scales["transfer"] if "table" not in scales or _is_known(each)]
    sentences = [*_shift_texts(known), *map(_chosen_text, scales["choices"])]
    if sentences:
        yield Paragraph(
            "**Do the best values transfer?** The table has the hyperparameter values of each scale's best trials. A "
            "fit to the better half of each scale's trials estimates how these values shift with cost."
        )
        yield Table(
            ("best of", *(f"scale {each['number']}" for each in scales["each"])),
            [(f"`{each['key']}`", *map(_cell, each["best"])) for each in (*known, *scales["choices"])],
        )
        yield Items(sentences)
    if "expected" in scales:
        yield Paragraph(
            f"**Expected best point at the target**, from the scales below it: {point_text(scales['expected'])}."
        )
    yield Paragraph(law_text(scales["law"], scales["each"][-1]["best"], len(scales["each"]) - 1, score_text(report)))


def _scales_table(report: ReportJson, scales: ScalesPart) -> Table:
    text, metric = score_text(report), report["metric"]["name"]
    last = len(scales["each"])

    def percent(share: float | None) -> str:
        return "–" if share is None else f"{share:.0%}"

    rows = [
        (
            f"{each['number']}{' (target)' * (each['number'] == last)}",
            point_text(each["changes"]),
            f"{each['complete']} / {each['failed']}",
            "–" if each["best"] is None else f"{text(each['best']['score'])} ({_trial_text(each['best']['number'])})",
            "–" if each["cost"] is None else f"{each['cost']:.3g}",
            percent(each["share_of_cost"]),
            percent(each["share_of_seconds"]),
        )
        for each in scales["each"]
    ]
    head = (
        "scale",
        "changes",
        "complete / failed",
        f"best {metric}",
        "cost of a training",
        "share of cost",
        "share of time",
    )
    return Table(head, rows)


def _cell(value: Any) -> str:
    return "–" if value is None else f"{value:.3g}" if isinstance(value, float) else format_value(value)


def _shift_texts(transfer: Sequence[Transfer]) -> Iterator[str]:
    """Yield how the best value of each hyperparameter shifts; at the end, list those with an unknown shift."""
    unknown: dict[str, list[str]] = {}
    for each in transfer:
        counts = [str(count) for count in each["trials"] if count]
        trials = f"{join_names(counts) if counts else 'no'} trials"
        if is_missing(each["shift"]) or not _is_known(each):
            unknown.setdefault(trials, []).append(f"`{each['key']}`")
        else:
            yield f"`{each['key']}`: the best value {_shift_text(each['shift_is'], each['shift'], trials)}"
    for trials, keys in unknown.items():
        best = "the best value shifts" if len(keys) == 1 else "the best values shift"
        yield f"{join_names(keys)}: a fit to {trials} does not show whether {best}"


def _trial_text(number: int) -> str:
    return f"trial {number}" if number >= 0 else "from another study"


def _is_known(each: Transfer) -> bool:
    return not is_missing(each["shift"]) and each["shift"]["is_known"]


def _shift_text(kind: str, shift: ShiftPart, trials: str) -> str:
    unit, places = "a factor of " * (kind == "factor"), " places in the list of values" * (kind == "steps")
    low, high = shift["interval"]
    if not shift["moves"]:
        between = f"{unit}{low:.3g} to {high:.3g}{places} per doubling of cost"
        return f"shows no shift in a fit to {trials} (95 % interval of the shift: {between})"
    verb, ends = "rises", [shift["value"], low, high]
    if high < (1 if kind == "factor" else 0):
        verb, ends = "falls", [1 / end if kind == "factor" else -end for end in (shift["value"], high, low)]
    value, first, last = (f"{end:.3g}" for end in ends)
    return f"{verb} by {unit}{value}{places} (95 % interval: {first} to {last}) per doubling of cost"


def _chosen_text(each: Chosen) -> str:
    known = [value for value in each["best"] if value is not None]
    key, values = f"`{each['key']}`", list(dict.fromkeys(map(format_value, known)))
    if len(values) == 1 and len(known) > 1:
        return f"{key}: {values[0]} is the best at every scale"
    return f"{key}: the best values by scale are {', '.join(map(format_value, known)) or 'unknown'}"
