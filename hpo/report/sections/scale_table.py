"""Results across scales: the power law of loss over cost, and the table of a grid search of one hyperparameter.

The table has one score for each pair of a scale and a value of the hyperparameter.
"""

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field
from typing_extensions import TypedDict

from hpo.formatting import format_value
from hpo.report.formatting import point_text
from hpo.report.part import Block, Missing, Paragraph, Table, is_missing, missing
from hpo.report.transfer import ScaleResults
from hpo.trials import reported_values
from hpo.trials.score_format import score_format
from hpo.trials.trial import Trial


class BestOfScale(TypedDict):
    """The best complete trial of a scale."""

    number: Annotated[int, Field(description="the trial's number; below 0 for a trial imported from another study")]
    score: float


class LawPart(TypedDict):
    """The power law loss = factor * cost^-exponent, fitted to the best losses of the scales below the target.

    Cost is relative to the first scale.
    """

    factor: float
    exponent: float
    predicted: Annotated[float, Field(description="predicted best loss at the target")]
    interval: Annotated[list[float], Field(description="95 % interval of `predicted`")]


def describe_law(scale_results: ScaleResults) -> LawPart | Missing:
    """Return the power law, or the reason why no power law can be fitted."""
    law = scale_results.law
    if law is None:
        return missing(scale_results.no_law or "")
    interval = [law.low, law.high]
    return {"factor": law.factor, "exponent": law.exponent, "predicted": law.predicted, "interval": interval}


def law_text(law: LawPart | Missing, best: BestOfScale | None, num_below: int, text: Callable[[float], str]) -> str:
    """Return the power law in words, or the reason why there is no power law.

    `best` is the target's best trial. `num_below` is the number of scales below the target.
    """
    if is_missing(law):
        return f"**Loss over cost**: there is no prediction for the target: {law['missing']}."
    low, high = law["interval"]
    result = "there was no training at the target"
    if best is not None:
        score = best["score"]
        where = "inside" if low <= score <= high else "outside of"
        result = f"the best trial at the target has a loss of {text(score)}, {where} this interval"
    return (
        f"**Loss over cost**: the scales below the target predict a best loss of {text(law['predicted'])} at the "
        f"target ({low:.4g} to {high:.4g}, 95 %); {result}. "
        f"The prediction is a power law, fitted to the best losses of the scales below the target: loss = "
        f"{law['factor']:.4g} cost^-{law['exponent']:.3g}. Cost is relative to the first scale. {num_below} scales are "
        f"too few to also fit an irreducible loss. A scale with fewer trials is less likely to have found its lowest "
        f"possible loss."
    )


# Number of standard errors from which a difference is more than chance.
_SIGNIFICANT_ERRORS = 2.0


class ScaleTable(TypedDict):
    """The score of every value at every scale, in a grid search of one hyperparameter whose values have an order."""

    key: str
    values: list[Any]
    scores: Annotated[
        list[list[float | None]],
        Field(
            description="one list for each scale, the smallest first, with one score for each entry of `values`: "
            "the mean over folds and repeats; null = no score"
        ),
    ]
    best: Annotated[
        list[Any],
        Field(description="the entry of `values` with the best score at each scale; null = the scale has no score"),
    ]
    moves: Annotated[
        float | None,
        Field(
            description="distance between the smallest and the largest entry of `best`, in the unit `moves_is`; "
            "null = no value has a score"
        ),
    ]
    moves_is: Annotated[
        Literal["factor", "places"],
        Field(
            description="factor: (largest entry of `best`) / (smallest entry of `best`); places: number of steps in "
            "`values` between these two entries"
        ),
    ]
    cost: Annotated[
        float | None,
        Field(
            ge=0,
            description="what it costs to use v, the value that is best at the smallest scale, at every scale: "
            "(loss with v) - (loss with the scale's own best value), for the scale with the largest difference; null = "
            "fewer than two scales have scores, the smallest scale has no score, or another scale has scores but none "
            "for v",
        ),
    ]
    cost_error: Annotated[
        float | None,
        Field(
            ge=0,
            description="standard error of `cost` over folds and seeds; null = one training per trial, or no `cost`",
        ),
    ]


def scale_table(scale_results: ScaleResults, metric: str) -> ScaleTable | None:
    """Return the table; None if the study is no grid search of one hyperparameter whose values have an order."""
    if not scale_results.is_grid or len(scale_results.dimensions) != 1 or not scale_results.ordered:
        return None
    (dimension,) = scale_results.ordered
    key = dimension.key
    # If a value was tried twice, take the better score.
    trials: list[dict[Any, Trial]] = [
        {trial.point[key]: trial for trial in reversed(ranked)} for ranked in scale_results.ranked
    ]
    values = sorted({value for of in trials for value in of}, key=dimension.to_unit)
    best: list[Any] = [ranked[0].point[key] if ranked else None for ranked in scale_results.ranked]
    known = [value for value in best if value is not None]
    is_factor = all((number := reported_values.number(value)) is not None and number > 0 for value in values)
    moves: float | None = None
    if known and is_factor:
        moves = max(known) / min(known)
    elif known:
        places = [values.index(value) for value in known]
        moves = float(max(places) - min(places))
    scored = [(of, ranked[0]) for of, ranked in zip(trials, scale_results.ranked, strict=True) if ranked]
    cost: float | None = None
    error: float | None = None
    if len(scored) > 1 and all(best[0] in of for of, _ in scored):
        # Take the scale at which the smallest scale's best value loses most against that scale's own best trial.
        pairs = [(of[best[0]], first) for of, first in scored]
        trial, first = max(pairs, key=lambda pair: pair[0].loss - pair[1].loss)
        cost, error = trial.loss - first.loss, _error(trial, first, metric)
    return {
        "key": key,
        "values": values,
        "scores": [[of[value].score if value in of else None for value in values] for of in trials],
        "best": best,
        "moves": moves,
        "moves_is": "factor" if is_factor else "places",
        "cost": cost,
        "cost_error": error,
    }


def _error(trial: Trial, other: Trial, metric: str) -> float | None:
    """Return the standard error of the mean difference between two trials, paired by fold and repeat.

    Return None if there are fewer than two pairs.
    """
    pairs = list(zip(trial.values(metric), other.values(metric), strict=False))
    if len(pairs) < 2:
        return None
    return statistics.stdev(one - its for one, its in pairs) / math.sqrt(len(pairs))


def read_table(table: ScaleTable, changes: Sequence[Mapping[str, Any]], metric: str) -> Iterator[Block]:
    """Yield a sentence on the hyperparameter's best value (see `table_text`), then the table of scores."""
    yield Paragraph(f"**Scores by scale and value of `{table['key']}`**: {table_text(table, metric)}.")
    yield table_rows(table, changes, "**{}**")


def table_rows(table: ScaleTable, changes: Sequence[Mapping[str, Any]], mark: str) -> Table:
    """Return the table as texts, one row per scale; each row's best score has the format `mark`, such as `**{}**`."""
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
    """Return a sentence that says whether the hyperparameter's best value moves between the scales.

    If no value has a score at any scale, the sentence says only this. Otherwise, the sentence ends with the first of
    the following facts that is true:

    - A scale has no score.
    - The smallest scale's best value has no score at another scale.
    - The smallest scale's best value would be worse at another scale (`table["cost"]` is above 0).
    """
    moves, cost, key = table["moves"], table["cost"], table["key"]
    if moves is None:
        return f"no value of {key} has a score"
    if moves == (1 if table["moves_is"] == "factor" else 0):
        text = f"the best {key} is the same at every scale"
    elif table["moves_is"] == "factor":
        text = f"between the scales, the best {key} moves by a factor of up to {moves:.3g}"
    else:
        text = f"between the scales, the best {key} moves by up to {moves:g} places in its list of values"
    if None in table["best"]:
        text = f"{text}; scales without a score are left out"
    elif cost is None and (missing := _num_without_smallest(table)):
        text = f"{text}; the smallest scale's best value failed, or was not tried, at {missing} of the other scales"
    elif cost:
        text += f"; if other scales used the smallest scale's best {key}, {metric} would be up to {cost:.3g} worse"
        text += _noise_text(cost, table["cost_error"])
    return text


def _noise_text(cost: float, error: float | None) -> str:
    if error is None:
        return "; with one training per trial, this difference may be chance: set study.repeats=3 to find out"
    chance = "; the difference may be chance" if cost < _SIGNIFICANT_ERRORS * error else ""
    return f" (standard error {error:.2g}{chance})"


def _num_without_smallest(table: ScaleTable) -> int:
    """Return how many scales have no score for v, the value that is best at the smallest scale."""
    place = table["values"].index(table["best"][0])
    return sum(scores[place] is None for scores in table["scores"])
