"""How much each hyperparameter matters: field 20."""

from typing import Annotated, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from hpo.report.missing import Missing, missing
from hpo.report.part import Absent
from hpo.report.subject import Subject


class Contributed(TypedDict):
    """What a hyperparameter contributes to the winner's gain over the default: above 0 is better."""

    gain: float
    low: float
    high: float


class Importance(TypedDict):
    """Field 20: shares that sum to 1, and contributions in the units of the metric."""

    evaluator: str
    values: dict[str, float]
    shapley: NotRequired[
        Annotated[dict[str, Contributed] | Missing, Field(description="HyperSHAP, with the middle 95 % of the fits")]
    ]


def describe_importance(subject: Subject) -> Importance | Missing:
    """Return the importances and the contributions, or why there are none."""
    shares, parts = subject.importances, subject.contributions
    if isinstance(shares, Absent):
        return missing(shares.reason)
    shapley: dict[str, Contributed] | Missing
    if isinstance(parts, Absent):
        shapley = missing(parts.reason)
    else:
        shapley = {key: {"gain": each.gain, "low": each.low, "high": each.high} for key, each in parts.items()}
    return {"evaluator": "PED-ANOVA", "values": shares, "shapley": shapley}
