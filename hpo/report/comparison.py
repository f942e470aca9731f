"""What comparison.json holds, key by key.

Scores and differences are in the metric's own unit. Intervals are 95 %, that of a pair's difference 1 - `level`; null
where there are too few searches for one.
"""

from typing import Any, Literal, NotRequired, TypedDict

from hpo.trials.trial import Direction

Unit = Literal["trials", "seconds"]
Ends = list[float] | tuple[float, float]
Curves = dict[str, dict[str, dict[str, list[float]]]]


class AtBudget(TypedDict):
    """What holds of so many trials of each search, or seconds."""

    budget: float
    unit: Unit


def budget_text(at: AtBudget) -> str:
    """Return a budget in words, such as `30 trials`."""
    return f"{at['budget']:,g} {at['unit']}"


class Standing(AtBudget):
    """A strategy or study at one budget.

    Attributes:
        mean_regret, regret_interval: distance to the optimum, lower is better; null where that is not known.
        mean_seconds: of training, spent by then.
        share_over_limits: of its trials by then, the mean over its searches; absent without limits.
    """

    label: str
    mean_score: float | None
    interval: Ends | None
    mean_regret: float | None
    regret_interval: Ends | None
    mean_seconds: float
    share_over_limits: NotRequired[float]


class Pair(AtBudget):
    """Two strategies at one budget.

    Attributes:
        pairs: how many searches had the same seed.
        mean_difference: by how much B is better than A, in the metric's unit: below 0, A is better.
        a_beats_b: share of the pairs that A wins; a tie is half a win.
        interval: of the mean difference; without 0 exactly where one is better.
        p, p_holm: of a two-sided sign-flip test, and corrected for all pairs of this budget.
        level: to which p is compared, 0.05 divided as Holm's correction does; null without p.
        better: a label, or null.
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
    """By how much B's winner is better than A's, in the metric's unit.

    Attributes:
        by_fold: of their scores.
        mean_difference: of what they are expected to score; where that is not known, of their scores.
        interval: 95 %, of the first; else null.
    """

    a: str
    b: str
    by_fold: dict[str, float]
    mean_difference: float
    interval: Ends | None


class WinnerOf(TypedDict):
    """The winner of a study, its score on each fold in the search, and its values by name (absent with one score).

    `fresh` is its mean score on the fresh seeds that chose it; absent where the search's scores did.
    """

    label: str
    trial: int | None
    folds: dict[str, float]
    fresh: NotRequired[float]
    values: NotRequired[dict[str, float]]


class FrontsJson(TypedDict):
    """What the fronts of searches by several metrics are measured by, and where they lie.

    Attributes:
        metrics: directions by metric, the leading one first.
        scale: by metric the values that count as 0 and as 1: the best and the worst of all trials within the limits;
            empty where there are none.
        reference: the reference point, in values of this scale.
        hypervolume: that of the best front, in values of this scale, to which the regret is.
        is_table: whether scale and best front are of a whole table, not of what the searches tried.
        attainment: by label and share of the searches in %, what so many attained, the corners of a staircase; absent
            with more than two metrics.
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
        kind: `strategies`: searches repeated with paired seeds; `studies`: one search each.
        optimum: the best score possible; null = not known.
        strategies: settings by label.
        method: how the figures were made.
        notes: what a reader must know, in sentences.
        curves: by label and unit: the places, `mean`, `low` and `high` of the best score so far.
        answers: which study is better, one sentence per pair.
        winners, folds, answers: absent in a comparison of strategies.
        fronts: absent with one metric; with several `metric` is `hypervolume regret`, and scores are this.
        limits: what has to be kept, in words; absent without limits.
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
