"""Expected validation performance: what a random search of n trials would have found, from the B that were run."""

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray
from typing_extensions import TypedDict

from hpo.engine.trials.digits import score_format
from hpo.engine.trials.trial import Direction, loss_sign
from hpo.report.blocks import Block, Paragraph, Table
from hpo.report.part import Missing, is_missing, missing

if TYPE_CHECKING:
    from hpo.report.sections.report import ReportJson


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


_NUM_BUDGETS = 40  # of a curve, evenly spaced on a logarithmic scale


def describe_expected(strategy: str, scores: Sequence[float], direction: Direction) -> ExpectedPart | Missing:
    """Return both curves for the scores of all complete trials, or the reason why there are none."""
    if strategy != "random":
        return missing(
            f"its estimators need independent draws; {strategy} search chooses points by what it saw or by a pattern: "
            f"repeat whole searches instead (hpo compare)"
        )
    if len(scores) < 2:
        return missing("fewer than two complete trials")
    return {
        "biased": expected_performance(scores, direction, "biased"),
        "unbiased": expected_performance(scores, direction, "unbiased"),
    }


def expected_performance(
    scores: Sequence[float], direction: Direction, estimator: Literal["biased", "unbiased"]
) -> Expected:
    """Return the expected best score, with replacement (`biased`) or without, after n = 1 .. B/2 of the B draws.

    Beyond half of them both estimators depend mostly on the best trial. The weights of the sorted scores
    v(1) <= ... <= v(B) are, biased, (i/B)^n - ((i-1)/B)^n, and, unbiased, C(i-1, n-1) / C(B, n); the latter are built
    by their ratios, which neither overflow nor cancel for any B.

    Source: Dodge et al. 2019, "Show Your Work" (arXiv 1909.03004), equation 2; Tang et al. 2020 (arXiv 2004.13705),
    equation 6.
    """
    sign = -loss_sign(direction)
    values = np.sort(sign * np.asarray(scores, dtype=float))
    budgets = sorted({round(n) for n in np.geomspace(1, max(1, len(values) // 2), _NUM_BUDGETS).tolist()})
    curve: Expected = {"estimator": estimator, "budgets": budgets, "means": [], "spreads": []}
    for n in budgets:
        weights = _biased(len(values), n) if estimator == "biased" else _unbiased(len(values), n)
        mean = float(weights @ values)
        curve["means"].append(sign * mean)
        curve["spreads"].append(math.sqrt(max(0.0, float(weights @ (values - mean) ** 2))))
    return curve


def _biased(size: int, n: int) -> NDArray[np.float64]:
    weights: NDArray[np.float64] = np.diff((np.arange(size + 1) / size) ** n)
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
