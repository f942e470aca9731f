"""Computes the content of `comparison.json` from finished searches; see `ComparisonJson`."""

import itertools
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from hpo.compare.curves import FinishedSearch, all_searches, mean_curve
from hpo.compare.hypervolume import NAME, Yardstick
from hpo.compare.statistics import FLIPS, LEVEL, RESAMPLES, SignFlips, fewest_repeats, holm, win_share
from hpo.report.comparison import ComparisonJson, Pair, Standing, Unit, budget_text
from hpo.report.formatting import join_names
from hpo.study.upgrade import FORMAT
from hpo.trials.estimate import wilson_interval
from hpo.trials.goal import Goal, Limit
from hpo.trials.trial import Direction, Trial, loss_sign

ONE_EACH = "A single search does not show which strategy is better: another seed may reverse the order."
NOT_DISTINGUISHABLE = "not distinguishable at this budget"
UNITS: tuple[Unit, ...] = ("trials", "seconds")

# The seed of resampling is fixed, so that the same searches always give the same intervals.
_SEED = 0

_METHOD = {
    "curves": (
        f"the mean of the repeats' best scores so far; the 95 % band of this mean is a percentile bootstrap with "
        f"{RESAMPLES:,} resamples of whole curves"
    ),
    "interval": (
        "the interval contains every mean that a sign-flip test does not reject. The level of the test is 0.05 for a "
        "strategy's mean score, and `level` for the mean difference of two strategies. The interval of a difference "
        "excludes 0 exactly if one strategy is better than the other. With too few repeats there is no interval"
    ),
    "a_beats_b_interval": "Wilson's score interval, 95 %",
    "p": (
        f"the p-value of a two-sided sign-flip test of the mean difference: the test uses all sign flips for up to 16 "
        f"repeats, and {FLIPS:,} random sign flips for more repeats"
    ),
    "p_holm": "p after Holm's correction for all pairs of strategies that are tested at the same budget",
    "level": (
        "the significance level for p in Holm's correction. For m pairs, the smallest p has the level 0.05 / m, the "
        "next p has the level 0.05 / (m - 1), and so on. If a p is not below its level, this pair and all pairs with a "
        f"larger p have the verdict '{NOT_DISTINGUISHABLE}', and the same level"
    ),
    "verdict": f"the strategy with the better mean score is better than the other strategy if p_holm < {LEVEL:g}",
    "seconds": "the summed durations of a search's trainings, including trainings that run at the same time",
}


class Budget(NamedTuple):
    """The part of each search that a comparison uses: the first `amount` trials or `amount` seconds of training."""

    amount: float
    unit: Unit

    def __str__(self) -> str:
        return budget_text({"budget": self.amount, "unit": self.unit})


@dataclass(frozen=True)
class Measure:
    """The quantity by which searches are compared: the score of the only metric, or the hypervolume regret.

    Attributes:
        metric: the name of the metric; with several metrics, `hypervolume regret`.
        direction: the direction of the metric; with several metrics, `minimize`.
        optimum: the best possible score; None if it is not known, or if there are several metrics.
        yardstick: computes the hypervolume regret; None with one metric.
        limits: the limits that all compared searches share.
    """

    metric: str
    direction: Direction
    optimum: float | None = None
    yardstick: Yardstick | None = None
    limits: Sequence[Limit] = ()

    @classmethod
    def of(
        cls,
        goal: Goal,
        searches: Iterable[FinishedSearch],
        table: Sequence[Trial] | None = None,
        optimum: float | None = None,
    ) -> "Measure":
        """Return the measure by which these searches are compared.

        Args:
            goal: the metrics and limits.
            searches: all searches of the comparison.
            table: one trial for each row of the objective's table; None = do not use a table.
            optimum: the best possible score, if there is one metric; None = the best score in `table`, if there is a
                table.
        """
        if len(goal.metrics) > 1:
            return cls(NAME, "minimize", None, Yardstick.of(goal, searches, table), goal.limits)
        if optimum is None:
            within = [trial for trial in table or () if trial.keeps_limits]
            optimum = min(within, key=lambda trial: trial.loss).score if within else None
        return cls(goal.metric, goal.direction, optimum, None, goal.limits)

    def measured(self, search: FinishedSearch) -> FinishedSearch:
        """Return a copy of the search with the losses by which searches are compared.

        With one metric, trials beyond the limits get infinite losses. With several metrics, the loss of each trial is
        the search's hypervolume regret after the trial; see `Yardstick.measured`.
        """
        return search.within_limits if self.yardstick is None else self.yardstick.measured(search)

    @property
    def sign(self) -> float:
        """The factor that turns a loss into a score, and a score into a loss: 1 or -1."""
        return loss_sign(self.direction)


def compare_strategies(
    name: str,
    searches: Mapping[str, Sequence[FinishedSearch]],
    measure: Measure,
    budgets: Sequence[Budget],
    settings: Mapping[str, Mapping[str, Any]],
) -> ComparisonJson:
    """Return the content of comparison.json for strategies whose searches were repeated with paired seeds."""
    repeats = min(len(of_label) for of_label in searches.values())
    measured = {label: [measure.measured(search) for search in those] for label, those in searches.items()}
    by_budget = [compare_pairs(measured, budget) for budget in budgets]
    num_tested = min(sum(pair["p"] is not None for pair in pairs) for pairs in by_budget)
    notes = _notes(searches, measure, repeats, max(1, num_tested))
    pairs = [pair for pairs in by_budget for pair in pairs]
    return as_json("strategies", name, searches, measured, measure, budgets, settings, _METHOD, notes, repeats, pairs)


def as_json(
    kind: Literal["strategies", "studies"],
    name: str,
    searches: Mapping[str, Sequence[FinishedSearch]],
    measured: Mapping[str, Sequence[FinishedSearch]],
    measure: Measure,
    budgets: Sequence[Budget],
    settings: Mapping[str, Mapping[str, Any]],
    method: dict[str, str],
    notes: list[str],
    repeats: int = 1,
    pairs: Sequence[Pair] = (),
) -> ComparisonJson:
    """Return the content of comparison.json, for strategies or for studies.

    `searches` are the searches as recorded; `measured` are the same searches with the losses that `measure` computes.
    """
    content: ComparisonJson = {
        "format": FORMAT,
        "kind": kind,
        "name": name,
        "metric": measure.metric,
        "direction": measure.direction,
        "repeats": repeats,
        "optimum": measure.optimum,
        "strategies": {label: dict(values) for label, values in settings.items()},
        "method": method,
        "notes": notes,
        "standings": [_standing(label, those, measure, b) for b in budgets for label, those in measured.items()],
        "pairs": list(pairs),
        "curves": {
            label: {unit: mean_curve(those, unit, measure.sign, _SEED) for unit in UNITS}
            for label, those in measured.items()
        },
    }
    if measure.limits:
        content["limits"] = [str(limit) for limit in measure.limits]
    if measure.yardstick is not None:
        content["method"] = measure.yardstick.method() | content["method"]
        content["fronts"] = measure.yardstick.as_json(searches)
    return content


def compare_pairs(searches: Mapping[str, Sequence[FinishedSearch]], budget: Budget) -> list[Pair]:
    """Return the test of each pair of strategies at one budget; the tests are corrected for the number of pairs."""
    pairs = [_pair(a, b, searches, budget) for a, b in itertools.combinations(searches, 2)]
    tested = [(pair, flips) for pair, flips in pairs if flips is not None]
    for (pair, flips), (p, divisor) in zip(tested, holm([flips.p for _, flips in tested]), strict=True):
        pair |= {"p": flips.p, "p_holm": p, "level": LEVEL / divisor, "interval": flips.interval(divisor)}
        if p < LEVEL:
            pair["better"] = pair["a"] if (pair["mean_difference"] or 0.0) < 0 else pair["b"]
        pair["verdict"] = f"{pair['better']} is better" if pair["better"] else NOT_DISTINGUISHABLE
    return [pair for pair, _ in pairs]


def _pair(
    a: str, b: str, searches: Mapping[str, Sequence[FinishedSearch]], budget: Budget
) -> tuple[Pair, SignFlips | None]:
    """Return the comparison of strategies A and B without p-values, and the sign-flip test of their differences.

    The test is None if a search has no finite loss within the budget, because such searches are not comparable.
    """
    of_a, of_b = ([search.best_at(*budget) for search in searches[label]] for label in (a, b))
    is_complete = all(math.isfinite(loss) for loss in (*of_a, *of_b))
    differences = [one - other for one, other in zip(of_a, of_b, strict=True)] if is_complete else []
    share = win_share(of_a, of_b)
    limits = "within the limits and " if any(any(search.excess) for search in (*searches[a], *searches[b])) else ""
    pair: Pair = {
        "budget": budget.amount,
        "unit": budget.unit,
        "a": a,
        "b": b,
        "pairs": len(of_a),
        "mean_difference": statistics.fmean(differences) if is_complete else None,
        "interval": None,
        "a_beats_b": share,
        # The probability is from Bouthillier et al. 2021 (arXiv 2103.03098), section 4. Their bootstrap would give
        # [1, 1] for six wins of six. With ties the interval is too wide.
        "a_beats_b_interval": wilson_interval(share, len(of_a)),
        "p": None,
        "p_holm": None,
        "level": None,
        "better": None,
        "verdict": f"not comparable, because at least one search has no complete trial {limits}within this budget",
    }
    return pair, SignFlips.of(differences, _SEED) if is_complete else None


def _standing(label: str, searches: Sequence[FinishedSearch], measure: Measure, budget: Budget) -> Standing:
    losses = [search.best_at(*budget) for search in searches]
    is_complete = all(math.isfinite(loss) for loss in losses)
    mean, ends = (statistics.fmean(losses), SignFlips.of(losses, _SEED).interval()) if is_complete else (None, None)
    best = None if measure.optimum is None else measure.sign * measure.optimum
    standing: Standing = {
        "budget": budget.amount,
        "unit": budget.unit,
        "label": label,
        "mean_score": None if mean is None else measure.sign * mean,
        "interval": None if ends is None else sorted(measure.sign * end for end in ends),
        "mean_regret": None if mean is None or best is None else mean - best,
        "regret_interval": None if ends is None or best is None else [end - best for end in ends],
        "mean_seconds": statistics.fmean(search.seconds_at(*budget) for search in searches),
    }
    if measure.limits:
        standing["share_over_limits"] = statistics.fmean(search.over_at(*budget) for search in searches)
    return standing


def _notes(
    searches: Mapping[str, Sequence[FinishedSearch]], measure: Measure, repeats: int, num_pairs: int
) -> list[str]:
    """Return the notes on a comparison.

    One note says how many repeats a test of `num_pairs` pairs of strategies needs. If the number of tested pairs is not
    the same at all budgets, `num_pairs` is the smallest number. `num_pairs` is at least 1.
    """
    notes, every = [], all_searches(searches)
    needed = fewest_repeats(num_pairs)
    if repeats < 2:
        notes.append(ONE_EACH)
    if repeats < needed:
        corrected = f", or {needed} with Holm's correction for {num_pairs} pairs" if needed > 6 else ""
        notes.append(
            f"A sign-flip test needs at least 6 repeats to reach p < 0.05{corrected}, given {repeats}. So the only "
            f"possible verdict is '{NOT_DISTINGUISHABLE}', and no difference has an interval."
        )
    partial = [label for label, those in searches.items() if any(search.is_partial for search in those)]
    if partial:
        notes.append(
            f"{', '.join(partial)}: trials are trained by different amounts, so equal numbers of trials are not equal "
            f"budgets; use the verdicts at equal seconds. Unlike `hpo search`, a comparison does not train the best "
            f"trials fully at the end."
        )
    losses = [loss for search in every for loss in search.losses]
    failed = sum(not math.isfinite(loss) for loss in losses)
    if failed:
        notes.append(f"{failed:,} of {len(losses):,} trials did not complete; these trials also use the budget.")
    notes += notes_on_measure(searches, measure)
    if measure.yardstick is not None:
        return notes
    if measure.optimum is None:
        notes.append("The optimum is not known, so there is no regret; give the best possible score as `optimum`.")
    elif any(loss < measure.sign * measure.optimum for each in every for loss in each.within_limits.losses):
        notes.append("A search reached a better score than the given optimum, so its regret is below 0.")
    return notes


def notes_on_measure(searches: Mapping[str, Sequence[FinishedSearch]], measure: Measure) -> list[str]:
    """Return notes on the limits and on the hypervolume regret."""
    notes = measure.yardstick.notes() if measure.yardstick else []
    if measure.limits:
        over = sum(excess > 0 for search in all_searches(searches) for excess in search.excess)
        total = sum(len(search.losses) for search in all_searches(searches))
        limits = join_names([str(limit) for limit in measure.limits])
        notes.insert(0, f"{over:,} of {total:,} trials exceed a limit ({limits}); these trials also use the budget.")
    return notes
