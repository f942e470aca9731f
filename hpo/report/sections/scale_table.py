"""The table of a grid at several scales: the score of each value of one hyperparameter at each, and what moves."""

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field, with_config
from typing_extensions import TypedDict

from hpo.engine.strategies.drawing.shift import to_unit
from hpo.formatting import format_value
from hpo.report.formatting import point_text
from hpo.report.part import EXACT, Block, Missing, Paragraph, Table, is_missing, missing
from hpo.report.transfer import ScaleResults
from hpo.trials import reported_values
from hpo.trials.score_format import score_format
from hpo.trials.trial import Trial


@with_config(EXACT)
class BestOfScale(TypedDict):
    """The best complete trial of a scale."""

    number: Annotated[int, Field(description="below 0: of another study, from which this one goes on")]
    score: float


@with_config(EXACT)
class LawPart(TypedDict):
    """loss = factor * cost^-exponent by the best of the scales below the target, cost relative to the first scale."""

    factor: float
    exponent: float
    predicted: Annotated[float, Field(description="the best loss at the target")]
    interval: Annotated[list[float], Field(description="95 % interval of that loss")]


def describe_law(scale_results: ScaleResults) -> LawPart | Missing:
    """Return the law; why there is none."""
    law = scale_results.law
    if law is None:
        return missing(scale_results.no_law or "")
    interval = [law.low, law.high]
    return {"factor": law.factor, "exponent": law.exponent, "predicted": law.predicted, "interval": interval}


def law_text(law: LawPart | Missing, best: BestOfScale | None, num_below: int, text: Callable[[float], str]) -> str:
    """Say it in words; `best` is that of the target, `num_below` the number of scales below it."""
    if is_missing(law):
        return f"**Loss over cost**: nothing is predicted for the target: {law['missing']}."
    low, high = law["interval"]
    seen = "nothing was trained there"
    if best is not None:
        score = best["score"]
        where = "inside" if low <= score <= high else "outside of"
        seen = f"{text(score)} was reached, {where} the interval"
    return (
        f"**Loss over cost**: by the scales below it the target's best is {text(law['predicted'])} "
        f"({low:.4g} to {high:.4g}, 95 %); {seen}. "
        f"loss = {law['factor']:.4g} cost^-{law['exponent']:.3g} in the first scale's cost, through the best loss of "
        f"each scale; a loss that no cost removes cannot be told from {num_below} scales, so none is in "
        f"it, and the best of fewer trials at a larger scale is the less likely to be its best."
    )


# Standard errors from which on a difference is more than chance.
_SURE = 2.0


@with_config(EXACT)
class ScaleTable(TypedDict):
    """The score of every value at every scale, of a grid of one hyperparameter whose values have an order."""

    key: str
    values: list[Any]
    scores: Annotated[
        list[list[float | None]],
        Field(description="by scale, the smallest first, and value: mean over folds and repeats; null = none"),
    ]
    best: Annotated[list[Any], Field(description="the best value of each scale; null = none")]
    moves: Annotated[
        float | None, Field(description="how far apart the best values of the scales lie; null = no scale has one")
    ]
    moves_is: Annotated[
        Literal["factor", "places"], Field(description="the largest over the smallest, or places in the list of values")
    ]
    cost: Annotated[
        float | None,
        Field(
            ge=0,
            description="the most that the smallest scale's best value is behind the best of another; null = unknown, "
            "also where that value has no score at another",
        ),
    ]
    cost_error: Annotated[
        float | None, Field(ge=0, description="standard error of `cost` over folds and seeds; null = one training each")
    ]


def scale_table(scale_results: ScaleResults, metric: str) -> ScaleTable | None:
    """Return the table; None where the study is no grid of one such hyperparameter."""
    if not scale_results.is_grid or len(scale_results.dimensions) != 1 or not scale_results.ordered:
        return None
    (dimension,) = scale_results.ordered
    key = dimension.key
    # A value that was tried twice has the better score.
    trials: list[dict[Any, Trial]] = [
        {trial.point[key]: trial for trial in reversed(ranked)} for ranked in scale_results.ranked
    ]
    values = sorted({value for of in trials for value in of}, key=lambda value: to_unit(dimension, value))
    best: list[Any] = [ranked[0].point[key] if ranked else None for ranked in scale_results.ranked]
    there = [value for value in best if value is not None]
    is_factor = all((number := reported_values.number(value)) is not None and number > 0 for value in values)
    moves: float | None = None
    if there and is_factor:
        moves = max(there) / min(there)
    elif there:
        places = [values.index(value) for value in there]
        moves = float(max(places) - min(places))
    there_too = [(of, ranked[0]) for of, ranked in zip(trials, scale_results.ranked, strict=True) if ranked]
    is_known = len(there_too) > 1 and all(best[0] in of for of, _ in there_too)
    # At the scale where it is the most behind.
    behind, first = max(((of[best[0]], first) for of, first in there_too), key=_behind) if is_known else (None, None)
    return {
        "key": key,
        "values": values,
        "scores": [[of[value].score if value in of else None for value in values] for of in trials],
        "best": best,
        "moves": moves,
        "moves_is": "factor" if is_factor else "places",
        "cost": None if behind is None or first is None else _behind((behind, first)),
        "cost_error": None if behind is None or first is None else _error(behind, first, metric),
    }


def _behind(pair: tuple[Trial, Trial]) -> float:
    trial, first = pair
    return trial.loss - first.loss


def _error(trial: Trial, other: Trial, metric: str) -> float | None:
    """Return the standard error of the mean difference of two trials, each on the same folds and seeds."""
    pairs = list(zip(trial.values(metric), other.values(metric), strict=False))
    if len(pairs) < 2:
        return None
    return statistics.stdev(one - its for one, its in pairs) / math.sqrt(len(pairs))


def read_table(table: ScaleTable, changes: Sequence[Mapping[str, Any]], metric: str) -> Iterator[Block]:
    """Say how far the best value moves, and show the table; arguments as of the two that follow."""
    yield Paragraph(f"**By scale and value of `{table['key']}`**: {table_text(table, metric)}.")
    yield table_rows(table, changes, "**{}**")


def table_rows(table: ScaleTable, changes: Sequence[Mapping[str, Any]], mark: str) -> Table:
    """Return the table in texts: a row a scale, with its changes, and the best of each in `mark`, such as `**{}**`."""
    text = score_format(score for scores in table["scores"] for score in scores)
    rows = [
        (
            point_text(of),
            *(
                "–" if score is None else mark.format(text(score)) if value == best else text(score)
                for value, score in zip(table["values"], scores, strict=True)
            ),
        )
        for of, scores, best in zip(changes, table["scores"], table["best"], strict=True)
    ]
    return Table(("scale", *map(format_value, table["values"])), rows)


def table_text(table: ScaleTable, metric: str) -> str:
    """Return as a sentence how far the best value moves, and what the smallest scale's costs at the others."""
    moves, cost, key = table["moves"], table["cost"], table["key"]
    if moves is None:
        return f"no value of {key} has a score"
    if moves == (1 if table["moves_is"] == "factor" else 0):
        says = f"the best {key} is the same at every scale"
    elif table["moves_is"] == "factor":
        says = f"the best {key} moves by a factor of {moves:.3g}"
    else:
        says = f"the best {key} moves by {moves:g} places of its list"
    if None in table["best"]:
        says = f"{says}, as far as there are scores"
    elif cost is None and (missing := _without_smallest(table)):
        says = f"{says}; that of the smallest scale failed, or was not tried, at {missing} of the others"
    elif cost:
        says = f"{says}; that of the smallest scale costs {cost:.3g} of {metric} at most at the others"
        says += _noise_text(cost, table["cost_error"])
    return says


def _noise_text(cost: float, error: float | None) -> str:
    if error is None:
        return ": of one training each, which may be chance; study.repeats=3 would tell"
    chance = ", which may be chance" if cost < _SURE * error else ""
    return f" (standard error {error:.2g}{chance})"


def _without_smallest(table: ScaleTable) -> int:
    """Return at how many scales the best value of the smallest has no score."""
    place = table["values"].index(table["best"][0])
    return sum(scores[place] is None for scores in table["scores"])
