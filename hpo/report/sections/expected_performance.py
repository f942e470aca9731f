"""Expected validation performance: what a random search of n trials would have found, from the B that were run."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray
from typing_extensions import TypedDict

from hpo.engine.trials.digits import score_format
from hpo.engine.trials.trial import Direction, loss_sign
from hpo.report.blocks import Block, Paragraph, Table
from hpo.report.part import Missing, is_missing

if TYPE_CHECKING:
    from hpo.report.sections.report import ReportJson

Estimator = Literal["biased", "unbiased"]


class Expected(TypedDict):
    """One estimate of the expected best score: mean and standard deviation over searches of n trials."""

    estimator: str
    budgets: list[int]
    means: list[float]
    spreads: list[float]


class ExpectedPart(TypedDict):
    """Field 17: both estimates."""

    biased: Expected
    unbiased: Expected


# The number of budgets of a curve, evenly spaced on a logarithmic scale.
_POINTS = 40


INDEPENDENT = ("random",)


@dataclass(frozen=True)
class ExpectedPerformance:
    """The curve of an estimator.

    Attributes:
        estimator: `biased` (with replacement, Dodge et al. 2019) or `unbiased` (without, Tang et al. 2020).
        budgets: n, rising, up to half the trials; beyond, both estimators depend mostly on the best trial.
        means: expected best score after n trials.
        spreads: standard deviation of the best score after n trials.
    """

    estimator: Estimator
    budgets: Sequence[int]
    means: Sequence[float]
    spreads: Sequence[float]


def expected_performance(scores: Sequence[float], direction: Direction, estimator: Estimator) -> ExpectedPerformance:
    """Return the expected best score against the number of trials.

    The weights of the sorted scores v(1) <= ... <= v(B) are, biased, (i/B)^n - ((i-1)/B)^n, and, unbiased,
    C(i-1, n-1) / C(B, n); the latter are built by their ratios, which neither overflow nor cancel for any B.

    Args:
        scores: those of all complete trials; draws must be independent, see `why_not`.
        direction: if lower is better, the expected lowest score is returned.
        estimator: `biased` or `unbiased`.

    Source: Dodge et al. 2019, "Show Your Work" (arXiv 1909.03004), equation 2; Tang et al. 2020 (arXiv 2004.13705),
    equation 6.
    """
    sign = -loss_sign(direction)
    values = np.sort(sign * np.asarray(scores, dtype=float))
    budgets = sorted({round(n) for n in np.geomspace(1, max(1, len(values) // 2), _POINTS).tolist()})
    means: list[float] = []
    spreads: list[float] = []
    for n in budgets:
        weights = _biased(len(values), n) if estimator == "biased" else _unbiased(len(values), n)
        mean = float(weights @ values)
        means.append(sign * mean)
        spreads.append(math.sqrt(max(0.0, float(weights @ (values - mean) ** 2))))
    return ExpectedPerformance(estimator, budgets, means, spreads)


def why_not(strategy: str, num_complete: int) -> str | None:
    """Return why there is no expected performance; None if there is one."""
    if strategy not in INDEPENDENT:
        return (
            f"its estimators need independent draws; {strategy} search chooses points by what it saw or by a pattern: "
            f"repeat whole searches instead (hpo compare)"
        )
    return "fewer than two complete trials" if num_complete < 2 else None


def describe_expected(strategy: str, scores: Sequence[float], direction: Direction) -> ExpectedPart | Missing:
    """Return both curves as a JSON-able dict, or the reason why there are none."""
    reason = why_not(strategy, len(scores))
    if reason is not None:
        return {"missing": reason}
    return {"biased": _described(scores, direction, "biased"), "unbiased": _described(scores, direction, "unbiased")}


def _described(scores: Sequence[float], direction: Direction, estimator: Estimator) -> Expected:
    curve = expected_performance(scores, direction, estimator)
    return {
        "estimator": estimator,
        "budgets": list(curve.budgets),
        "means": list(curve.means),
        "spreads": list(curve.spreads),
    }


def _biased(size: int, n: int) -> NDArray[np.float64]:
    shares = np.arange(size + 1) / size
    weights: NDArray[np.float64] = np.diff(shares**n)
    return weights


def _unbiased(size: int, n: int) -> NDArray[np.float64]:
    """Return C(i-1, n-1) / C(B, n) for i = 1 .. B.

    The last weight is n / B; each one before it is the next times (i - n + 1) / i, where the next belongs to i + 1.
    """
    weights = np.zeros(size)
    places = np.arange(n, size)
    ratios = (places - n + 1) / places
    weights[n - 1 :] = n / size * np.concatenate([np.cumprod(ratios[::-1])[::-1], [1.0]])
    return weights


def read_expected(report: "ReportJson") -> Iterator[Block]:
    """Yield both estimates by the number of trials."""
    expected = report["expected_performance"]
    if is_missing(expected):
        yield Paragraph(f"Not shown: {expected['missing']}.")
        return
    says = "The best score that a random search of n trials finds on average, ± its standard deviation over searches."
    yield Paragraph(says)
    both = expected["unbiased"], expected["biased"]
    text = score_format(mean for each in both for mean in each["means"])
    columns = [map("{} ± {}".format, map(text, each["means"]), map(text, each["spreads"])) for each in both]
    rows = list(zip(map(str, both[0]["budgets"]), *columns, strict=True))
    yield Table(("trials", "unbiased (Tang et al. 2020)", "biased (Dodge et al. 2019)"), rows)
