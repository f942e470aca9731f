"""The power law of loss over cost: what the scales below the target let expect of it."""

from collections.abc import Callable
from typing import Annotated

from pydantic import Field, with_config
from typing_extensions import TypedDict

from hpo.report.part import EXACT, Missing, is_missing, missing
from hpo.report.transfer import Climb


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


def describe_law(climb: Climb) -> LawPart | Missing:
    """Return the law; why there is none."""
    law = climb.law
    if law is None:
        return missing(climb.no_law or "")
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
