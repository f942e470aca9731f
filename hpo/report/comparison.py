"""The types of comparison.json, key by key.

Scores and differences are in the metric's own unit. All intervals are 95 % intervals, except `Pair.interval`, whose
confidence level is 1 - `Pair.level`. An interval of type `Ends | None` is null if there are too few searches, or if a
search has no complete trial within the budget and the limits.
"""

from typing import Any, Literal, NotRequired, TypedDict

from hpo.trials.trial import Direction

Unit = Literal["trials", "seconds"]
Ends = list[float] | tuple[float, float]
Curves = dict[str, dict[str, dict[str, list[float]]]]


class AtBudget(TypedDict):
    """The budget of each compared search: a number of trials, or of seconds of training."""

    budget: float
    unit: Unit


def budget_text(at: AtBudget) -> str:
    """Return a budget in words, such as `30 trials` or `1 trial`."""
    return f"{at['budget']:,g} {at['unit'].removesuffix('s') if at['budget'] == 1 else at['unit']}"


class Standing(AtBudget):
    """The results of a strategy or a study at one budget.

    Attributes:
        mean_score, interval: the mean of the searches' best scores, and the interval of this mean. `mean_score` is null
            if a search has no complete trial within the budget and the limits.
        mean_regret, regret_interval: the mean distance from the best score to the optimum, and the interval of this
            mean. Lower is better. Both are null if the optimum or `mean_score` is not known.
        mean_seconds: the mean training time of a search up to this budget.
        share_over_limits: the share of a search's trials up to this budget that exceed a limit, averaged over the
            searches. The key is absent if there are no limits.
    """

    label: str
    mean_score: float | None
    interval: Ends | None
    mean_regret: float | None
    regret_interval: Ends | None
    mean_seconds: float
    share_over_limits: NotRequired[float]


class Pair(AtBudget):
    """The comparison of two strategies, A and B, at one budget.

    Attributes:
        a, b: the labels of the strategies A and B.
        pairs: the number of pairs of searches, one by A and one by B with the same seed.
        mean_difference: the mean gain of B over A, in the metric's unit; below 0, A is better. Null if a search has no
            complete trial within the budget and the limits.
        a_beats_b: the share of the pairs of searches in which A is better than B; a tie counts as half.
        interval: the confidence interval of `mean_difference`, with the confidence level 1 - `level`. The interval
            excludes 0 exactly if one strategy is significantly better.
        p: the p-value of a two-sided sign-flip test; null if `mean_difference` is null.
        p_holm: `p` after Holm's correction, which covers all pairs of strategies with a `p` at this budget. Null if `p`
            is null.
        level: the significance level for `p`: 0.05 / (the divisor of Holm's correction). Null if `p` is null.
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
    """The differences between two compared studies A and B; a difference below 0 means that A is better.

    With one metric, a difference is the loss of A's winner minus the loss of B's winner. The loss is the score, negated
    if higher scores are better.

    Attributes:
        by_fold: the difference on each fold; empty with several metrics.
        mean_difference: the difference of the expected losses. If an expected loss is not known, this is the mean of
            `by_fold`. With several metrics, this is A's hypervolume regret minus B's hypervolume regret.
        interval: the 95 % confidence interval of `mean_difference`. Null if an expected loss is not known, or if there
            are several metrics.
    """

    a: str
    b: str
    by_fold: dict[str, float]
    mean_difference: float
    interval: Ends | None


class WinnerOf(TypedDict):
    """The winner of a study.

    Attributes:
        trial: the number of the winner; null = the study has no winner.
        folds: the winner's score on each fold in the search; empty without a winner.
        fresh: the winner's mean score on fresh seeds; absent if the winner was chosen by the scores of the search.
        values: the winner's value of each metric, and of each other number that every training returns, by name. Empty
            without a winner. The key `values` is absent if the study has only one metric and no limits.
    """

    label: str
    trial: int | None
    folds: dict[str, float]
    fresh: NotRequired[float]
    values: NotRequired[dict[str, float]]


class FrontsJson(TypedDict):
    """The Pareto fronts of searches with several metrics, and the scale of the fronts' hypervolume.

    Attributes:
        metrics: the direction of each metric; the leading metric comes first.
        scale: for each metric, the best and the worst value of all trials within the limits. On the scale, the best
            becomes 0 and the worst 1. Empty if no trial is within the limits.
        reference: the reference point on this scale.
        hypervolume: the hypervolume of the best front, on this scale. The regret of a search is 1 - h / `hypervolume`,
            where h is the hypervolume of the search's own front.
        is_table: whether the scale and the best front come from a whole table of scores. If not, they come from the
            trials of the searches.
        attainment: pairs of metric values, by label of the strategy or the study, and then by percentage. For
            percentage p, these are the best pairs that at least p percent of the label's searches attain. A search
            attains a pair if one of its trials within the limits is at least as good in both metrics. If a label has
            only one search, the only key is `50`. Absent with more than two metrics.
    """

    metrics: dict[str, Direction]
    scale: dict[str, list[float]]
    reference: float
    hypervolume: float
    is_table: bool
    attainment: NotRequired[dict[str, dict[str, list[list[float]]]]]


class ComparisonJson(TypedDict):
    """The content of comparison.json.

    Attributes:
        kind: `strategies` = repeated searches of each strategy, with paired seeds; `studies` = one search per study.
        metric: the name of the compared metric. With several metrics, this name is `hypervolume regret`, and all scores
            are hypervolume regrets.
        repeats: the number of searches of each strategy; 1 for studies.
        optimum: the best possible score; null = not known, or several metrics.
        strategies: by label, the settings of each strategy, or of each study's strategy.
        method: how the numbers were computed.
        notes: sentences about how to read the results.
        curves: for each label, two curves of the mean best score so far: over `trials` and over `seconds`. For example,
            `curves["tpe"]["trials"]` has four lists. The list `trials` has the budgets. The list `mean` has the mean at
            each budget. The lists `low` and `high` have the ends of the mean's 95 % interval. If a label has only one
            search, `low` and `high` are empty.
        pairs: the tests of all pairs of strategies; empty in a comparison of studies.
        winners: the winner of each study; absent in a comparison of strategies.
        folds: for each pair of compared studies, how their winners' scores differ, on each fold and in the mean. Only
            studies with the same data and folds are compared. If there are more than four studies, each is compared
            only with the best study. Absent in a comparison of strategies.
        answers: one sentence per entry of `folds`, and sentences about studies that are not compared; absent in a
            comparison of strategies.
        fronts: the Pareto fronts; absent with one metric.
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
