"""The types of comparison.json, key by key.

Scores and differences are in the metric's own unit. Intervals have the level 95 %, but the interval of a pair's
difference has the level 1 - `level`. An interval is null if there are too few searches.
"""

from typing import Any, Literal, NotRequired, TypedDict

from hpo.trials.trial import Direction

Unit = Literal["trials", "seconds"]
Ends = list[float] | tuple[float, float]
Curves = dict[str, dict[str, dict[str, list[float]]]]


class AtBudget(TypedDict):
    """A budget at which searches are compared: trials, or seconds of training, per search."""

    budget: float
    unit: Unit


def budget_text(at: AtBudget) -> str:
    """Return a budget in words, such as `30 trials` or `1 trial`."""
    return f"{at['budget']:,g} {at['unit'].removesuffix('s') if at['budget'] == 1 else at['unit']}"


class Standing(AtBudget):
    """The results of a strategy or a study at one budget.

    Attributes:
        mean_regret, regret_interval: the distance to the optimum, and its interval; lower is better. Both are null if
            the optimum is not known.
        mean_seconds: mean training time of a search up to this budget.
        share_over_limits: share of the trials up to this budget that exceed a limit, as the mean over the searches;
            absent without limits.
    """

    label: str
    mean_score: float | None
    interval: Ends | None
    mean_regret: float | None
    regret_interval: Ends | None
    mean_seconds: float
    share_over_limits: NotRequired[float]


class Pair(AtBudget):
    """The comparison of two strategies at one budget.

    Attributes:
        pairs: the number of pairs of searches with the same seed.
        mean_difference: the gain of B over A, in the metric's unit; below 0, A is better.
        a_beats_b: share of the pairs that A wins; a tie counts as half a win.
        interval: the interval of the mean difference; it excludes 0 exactly if one strategy is significantly better.
        p: the p-value of a two-sided sign-flip test; null if the pair is not comparable.
        p_holm: this p-value after Holm's correction for all pairs at this budget.
        level: the significance level for p: 0.05 divided as in Holm's correction; null if p is null.
        better: the label of the better strategy; null = no significant difference.
    """

    a: str
    b: str
    pairs: int
    mean_difference: float | None
    interval: Ends | None
    a_beats_b: float
    a_beats_b_interval: Ends
    p: float | None
    p_holm: float | None
    level: float | None
    better: str | None
    verdict: str


class FoldPair(TypedDict):
    """The gain of B's winner over A's winner, in the metric's unit.

    Attributes:
        by_fold: the difference of the winners' scores on each fold; empty with several metrics.
        mean_difference: the difference of the winners' expected scores. If these are not known, the mean of `by_fold`;
            with several metrics, the difference of the hypervolume regrets.
        interval: the 95 % interval of the difference of expected scores; null if these are not known.
    """

    a: str
    b: str
    by_fold: dict[str, float]
    mean_difference: float
    interval: Ends | None


class WinnerOf(TypedDict):
    """The winner of a study.

    Attributes:
        folds: the winner's score on each fold in the search.
        fresh: the winner's mean score on fresh seeds; absent if the search's scores chose the winner.
        values: the winner's metrics and its other numbers with limits, by name; absent for one metric without limits.
    """

    label: str
    trial: int | None
    folds: dict[str, float]
    fresh: NotRequired[float]
    values: NotRequired[dict[str, float]]


class FrontsJson(TypedDict):
    """The Pareto fronts of searches by several metrics, and the scale of their hypervolume.

    Attributes:
        metrics: the direction of each metric; the leading metric comes first.
        scale: for each metric, the values that are scaled to 0 and to 1: the best and the worst of all trials within
            the limits; empty if no trial is within the limits.
        reference: the reference point on this scale.
        hypervolume: the hypervolume of the best front on this scale. The regret of a search is 1 - its hypervolume /
            this hypervolume.
        is_table: whether scale and best front come from a whole table of scores, not from the trials of the searches.
        attainment: for each label and each percentage of its searches, the corners of the staircase that this
            percentage of searches attained; absent with more than two metrics.
    """

    metrics: dict[str, Direction]
    scale: dict[str, list[float]]
    reference: float
    hypervolume: float
    is_table: bool
    attainment: NotRequired[dict[str, dict[str, list[list[float]]]]]


class ComparisonJson(TypedDict):
    """The whole of comparison.json.

    Attributes:
        kind: `strategies` = searches repeated with paired seeds; `studies` = one search each.
        optimum: the best possible score; null = not known.
        strategies: the settings of each strategy, by label.
        method: how the numbers were computed.
        notes: sentences that a reader must know.
        curves: for each label and each unit, the budgets, and `mean`, `low` and `high` of the best score so far.
        answers: which study is better, one sentence per pair.
        winners, folds, answers: absent in a comparison of strategies.
        fronts: the Pareto fronts; absent with one metric. With several metrics, `metric` is `hypervolume regret`, and
            all scores are hypervolume regrets.
        limits: the limits in words; absent without limits.
    """

    format: int
    kind: Literal["strategies", "studies"]
    name: str
    metric: str
    direction: Direction
    repeats: int
    optimum: float | None
    strategies: dict[str, dict[str, Any]]
    method: dict[str, str]
    notes: list[str]
    standings: list[Standing]
    pairs: list[Pair]
    curves: Curves
    winners: NotRequired[list[WinnerOf]]
    folds: NotRequired[list[FoldPair]]
    answers: NotRequired[list[str]]
    fronts: NotRequired[FrontsJson]
    limits: NotRequired[list[str]]
