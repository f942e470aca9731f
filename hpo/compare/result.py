"""The result of a comparison, as `comparison.json` holds it.

Keys of the file (scores are in the metric's own unit, losses are scores with the sign turned so that lower is better,
intervals are 95 % and null for a single search):

- `format`, `kind` (`strategies`: searches repeated with paired seeds; `studies`: one search each), `name`, `metric`,
  `direction`, `repeats`, `optimum` (the best possible score; null = not known), `strategies` (label: settings, or the
  study's own), `method` (how the figures were computed), `notes` (caveats for the reader, in sentences).
- `standings`, one item per budget and label: `budget`, `unit` (`trials` or `seconds`), `label`, `mean_score`,
  `interval`, `mean_regret` and `regret_interval` (distance to the optimum, lower is better), `mean_seconds` (spent).
- `pairs`, one item per budget and pair of labels: `budget`, `unit`, `a`, `b`, `pairs` (of searches with the same seed),
  `mean_difference` (loss of A - loss of B: below 0, A is better) and `interval`, `a_beats_b` (share of the pairs that A
  wins, a tie is half a win) and `a_beats_b_interval`, `p` (two-sided sign-flip test), `p_holm` (corrected for all
  pairs of this budget), `better` (a label, or null) and `verdict`.
- `curves`, by label: `trials` and `seconds`, each with the places, `mean`, `low` and `high` of the best score so far.
- `winners` (of studies only): the best trial of each, and `folds`: the winners' differences on each fold.
"""

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from hpo.compare.curves import FinishedSearch, Unit, mean_curve
from hpo.compare.statistics import (
    FLIPS,
    LEVEL,
    RESAMPLES,
    fewest_repeats,
    holm,
    mean_interval,
    sign_flip_p,
    win_interval,
    win_share,
)
from hpo.engine.trials.trial import Direction

FORMAT = 1
NOT_DISTINGUISHABLE = "not distinguishable at this budget"
UNITS: tuple[Unit, ...] = ("trials", "seconds")

# Seed of the resampling, not of a search: the same searches always give the same intervals.
_SEED = 0

_METHOD = {
    "curves": f"mean of the best score so far; percentile bootstrap of whole curves, {RESAMPLES:,} resamples",
    "interval": f"bias-corrected and accelerated bootstrap of the mean, {RESAMPLES:,} resamples; each pair by itself",
    "a_beats_b_interval": "Wilson's score interval",
    "p": f"two-sided sign-flip test on the mean difference: all patterns up to 16 pairs, {FLIPS:,} random ones beyond",
    "p_holm": "Holm's correction over all pairs of a budget",
    "verdict": f"one is better where p_holm < {LEVEL:g}",
    "seconds": "of all trainings together, however many ran at once",
}


class Budget(NamedTuple):
    """How much of each search counts."""

    amount: float
    unit: Unit

    def __str__(self) -> str:
        return f"{self.amount:,g} {self.unit}"


@dataclass(frozen=True)
class Measure:
    """The metric and its direction, as in the studies, and the best possible score (None = not known)."""

    metric: str
    direction: Direction
    optimum: float | None = None

    @property
    def sign(self) -> float:
        """The factor that turns a loss into a score, and a score into a loss."""
        return -1.0 if self.direction == "maximize" else 1.0

    def regret(self, loss: float) -> float | None:
        """Return the distance of a loss to the optimum; None where that is not known."""
        return None if self.optimum is None else loss - self.sign * self.optimum


def compare_strategies(
    name: str,
    searches: Mapping[str, Sequence[FinishedSearch]],
    measure: Measure,
    budgets: Sequence[Budget],
    settings: Mapping[str, Mapping[str, Any]],
) -> dict[str, Any]:
    """Return the content of comparison.json for searches that were repeated with paired seeds."""
    repeats = min(len(of_label) for of_label in searches.values())
    return {
        "format": FORMAT,
        "kind": "strategies",
        "name": name,
        "metric": measure.metric,
        "direction": measure.direction,
        "repeats": repeats,
        "optimum": measure.optimum,
        "strategies": {label: dict(values) for label, values in settings.items()},
        "method": _METHOD,
        "notes": _notes(searches, measure, repeats),
        "standings": standings(searches, measure, budgets),
        "pairs": [pair for budget in budgets for pair in compare_pairs(searches, budget)],
        "curves": curves(searches, measure),
    }


def standings(
    searches: Mapping[str, Sequence[FinishedSearch]], measure: Measure, budgets: Sequence[Budget]
) -> list[dict[str, Any]]:
    """Return mean score, regret and seconds of each strategy at each budget, with intervals."""
    return [
        {"budget": budget.amount, "unit": budget.unit, "label": label, **_standing(of_label, measure, budget)}
        for budget in budgets
        for label, of_label in searches.items()
    ]


def compare_pairs(searches: Mapping[str, Sequence[FinishedSearch]], budget: Budget) -> list[dict[str, Any]]:
    """Return the tests of each pair of strategies at one budget, corrected for the number of pairs."""
    pairs = []
    for a, b in itertools.combinations(searches, 2):
        losses = [[search.best_at(*budget) for search in searches[label]] for label in (a, b)]
        pairs.append({"budget": budget.amount, "unit": budget.unit, "a": a, "b": b, **_pair(*losses)})
    tested = [pair for pair in pairs if pair["p"] is not None]
    for pair, corrected in zip(tested, holm([pair["p"] for pair in tested]), strict=True):
        pair["p_holm"] = corrected
        if corrected < LEVEL:
            pair["better"] = pair["a"] if pair["mean_difference"] < 0 else pair["b"]
        pair["verdict"] = f"{pair['better']} is better" if pair["better"] else NOT_DISTINGUISHABLE
    return pairs


def curves(searches: Mapping[str, Sequence[FinishedSearch]], measure: Measure) -> dict[str, Any]:
    """Return the best score so far of each strategy, over trials and over cost."""
    return {
        label: {unit: mean_curve(of_label, unit, _SEED).to_dict(unit, measure.sign) for unit in UNITS}
        for label, of_label in searches.items()
    }


def _pair(a: Sequence[float], b: Sequence[float]) -> dict[str, Any]:
    share = win_share(a, b)
    pair: dict[str, Any] = {
        "pairs": len(a),
        "mean_difference": None,
        "interval": None,
        "a_beats_b": share,
        "a_beats_b_interval": win_interval(share, len(a)),
        "p": None,
        "p_holm": None,
        "better": None,
        "verdict": "not comparable: searches without a complete trial within this budget",
    }
    if not all(math.isfinite(loss) for loss in (*a, *b)):
        return pair
    differences = [mine - its for mine, its in zip(a, b, strict=True)]
    return pair | {
        "mean_difference": statistics.fmean(differences),
        "interval": mean_interval(differences, _SEED),
        "p": sign_flip_p(differences, _SEED),
    }


def _standing(searches: Sequence[FinishedSearch], measure: Measure, budget: Budget) -> dict[str, Any]:
    losses = [search.best_at(*budget) for search in searches]
    seconds = statistics.fmean(search.seconds_at(*budget) for search in searches)
    if not all(math.isfinite(loss) for loss in losses):
        empty = dict.fromkeys(("mean_score", "interval", "mean_regret", "regret_interval"))
        return {**empty, "mean_seconds": seconds}
    mean, ends = statistics.fmean(losses), mean_interval(losses, _SEED)
    regrets = None if ends is None or measure.optimum is None else [measure.regret(end) for end in ends]
    return {
        "mean_score": measure.sign * mean,
        "interval": None if ends is None else sorted(measure.sign * end for end in ends),
        "mean_regret": measure.regret(mean),
        "regret_interval": regrets,
        "mean_seconds": seconds,
    }


def _notes(searches: Mapping[str, Sequence[FinishedSearch]], measure: Measure, repeats: int) -> list[str]:
    notes = []
    pairs = len(searches) * (len(searches) - 1) // 2
    needed = fewest_repeats(pairs)
    if repeats < 2:
        notes.append("One search each does not compare strategies: the next seed may reverse the order.")
    if repeats < needed:
        corrected = f", with Holm's correction for {pairs} pairs {needed}" if needed > 6 else ""
        notes.append(
            f"A sign-flip test needs at least 6 repeats to reach p < 0.05{corrected}, given {repeats}. So the only "
            f"possible verdict is '{NOT_DISTINGUISHABLE}'."
        )
    partial = [label for label, of_label in searches.items() if any(search.is_partial for search in of_label)]
    if partial:
        notes.append(
            f"{', '.join(partial)}: trials are trained by different amounts, so equal numbers of trials are not equal "
            f"budgets; look at the verdicts at equal seconds."
        )
    trials = [loss for of_label in searches.values() for search in of_label for loss in search.losses]
    failed = sum(not math.isfinite(loss) for loss in trials)
    if failed:
        notes.append(f"{failed:,} of {len(trials):,} trials did not complete; each counts in the budget.")
    if measure.optimum is None:
        notes.append("The optimum is not known, so there is no regret; give it with --optimum.")
    elif any(loss < measure.sign * measure.optimum for loss in trials):
        notes.append("A search reached a better score than the given optimum: regret below 0.")
    return notes
