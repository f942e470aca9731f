"""Computes each hyperparameter's importance for reaching the best trials, and its part of the winner's gain."""

import itertools
import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hpo.report.part import Missing, missing
from hpo.trials.space.dimensions import Choices, Dimension, Range, rank_of
from hpo.trials.space.space import Point, Space, point_key
from hpo.trials.trial import Direction, Trial, loss_sign

# PED-ANOVA needs at least ten trials: five of them, which is half, then count as the best.
FEWEST, _AMONG_BEST = 10, 5
# With fewer trials a figure shows only significant shares.
ENOUGH = 30
# All shuffles together take 5 ms per range. A grid has at most 50 cells, as in Optuna's PED-ANOVA.
_SHUFFLES, _MOST_PLACES = 199, 50
# The surrogate: fits, trees per fit, most trials per fit, and most hyperparameters (2^12 subsets take a moment).
_FITS, _TREES, _MOST_TRIALS, _MOST_PLAYERS = 20, 20, 1_000, 12
_ABSENT = object()


@dataclass(frozen=True)
class Contribution:
    """One hyperparameter's contribution to the winner's advantage over the default configuration, in the metric's unit.

    Each fit of the surrogate gives an estimate of the contribution. `gain` is the mean of the estimates. The middle
    95 % of the estimates are between `low` and `high`. Above 0, the winner's value of the hyperparameter is better than
    the default value.
    """

    gain: float
    low: float
    high: float


@dataclass(frozen=True)
class Importances:
    """The importance of each hyperparameter for reaching the best trials.

    Attributes:
        shares: each searched hyperparameter's share of the total importance, the largest first. All shares sum to 1.
        significant: the hyperparameters that pass the permutation test of `importances`, in the order of `shares`.
        num_trials: the number of trials from which the shares are computed.
    """

    shares: dict[str, float]
    significant: list[str]
    num_trials: int

    @property
    def visible(self) -> dict[str, float]:
        """The shares that a figure shows: all shares; with fewer than 30 trials, only the significant shares."""
        return {key: v for key, v in self.shares.items() if self.num_trials >= ENOUGH or key in self.significant}


def importances(
    space: Space, direction: Direction, trials: Sequence[Trial], scores: Sequence[float]
) -> Importances | Missing:
    """Return each searched hyperparameter's share of the total importance, and which hyperparameters are significant.

    Importance measures how far a hyperparameter's values among the best trials (see `best_share`) differ from its
    values among all trials. `scores` are the trials' values of one metric and must be comparable. Each hyperparameter
    is considered separately.

    Return the reason, a `Missing`, if there are fewer than ten trials, if all scores are equal, or if the values among
    the best trials do not differ from the values among all trials.

    A permutation test says which hyperparameters are significant. It shuffles the scores 199 times (seed 0), and
    computes each importance again. A hyperparameter is significant if at most 9 of its 199 shuffled importances reach
    the real importance: p = (9 + 1) / (199 + 1) = 5 %. The test uses importances that are not divided by their sum, so
    that one important hyperparameter does not hide another. About one in twenty hyperparameters without effect passes
    the test; docs/explanation/statistics.md says how often the test finds a real effect.

    Source: PED-ANOVA, Watanabe, Bansal & Hutter 2023 (arXiv 2304.10255), with conditional hyperparameters as in arXiv
    2601.20800. The grid, the kernels and the shares are those of `optuna.importance.PedAnovaImportanceEvaluator`. The
    p-values are those of Phipson & Smyth 2010, "Permutation P-values Should Never Be Zero".
    """
    if len(trials) < FEWEST:
        return too_few(len(trials))
    if len(set(scores)) == 1:
        return missing("all complete trials have the same score")
    losses = loss_sign(direction) * np.asarray(scores)
    among_best = losses <= np.sort(losses)[math.ceil(best_share(len(trials)) * len(trials)) - 1]
    shuffled = np.random.default_rng(0).permuted(np.tile(among_best, (_SHUFFLES, 1)), axis=1)
    sets = np.concatenate((among_best[np.newaxis], shuffled))
    divergences = {
        d.key: _divergence(d, trials, sets) for d in space.dimensions if any(d.key in t.point for t in trials)
    }
    total = sum(each[0] for each in divergences.values())
    if not total:
        return missing("the hyperparameter values of the best trials do not differ from those of all trials")
    shares = {
        key: float(divergences[key][0] / total)
        for key in sorted(divergences, key=lambda key: (-divergences[key][0], key))
    }
    # Compare with a tolerance: with few values, many shuffles give the same divergence except for rounding.
    significant = [key for key in shares if (divergences[key] >= (1 - 1e-9) * divergences[key][0]).mean() <= 0.05]
    return Importances(shares, significant, len(trials))


def _divergence(dimension: Dimension, trials: Sequence[Trial], sets: Any) -> Any:
    """Return how far the values of a dimension in each set of trials differ from its values in all trials.

    The result is Pearson's divergence of the two densities, times s^2 / S. A share s of the set's trials has the
    dimension, and a share S of all trials has it. `sets` marks the members of each set, shape (sets, trials).
    """
    present = [place for place, trial in enumerate(trials) if dimension.key in trial.point]
    if len(present) < 2:
        return np.zeros(len(sets))
    places, sizes = _places(dimension, [trials[place].point[dimension.key] for place in present])
    members = sets[:, present]
    of_sets = [places[is_member] for is_member in members]
    counts = np.array([np.bincount(each, minlength=len(sizes)) for each in (*of_sets, places)])
    density = _density(counts) if isinstance(dimension, Range) else _density_of_choices(counts, sizes.sum())
    within, overall = density[:-1], density[-1]
    weights = (members.sum(axis=1) / sets.sum(axis=1)) ** 2 * len(trials) / len(present)
    return weights * (overall * (within / overall - 1) ** 2 @ sizes)


def _places(dimension: Dimension, values: Sequence[Any]) -> tuple[Any, Any]:
    """Return two arrays: the index of each value's grid cell, and the size of each cell.

    A `Range` has at most 50 cells, each of size 1. Any other dimension has one cell of size 1 for each different entry
    of `values`. The last cell stands for all other values of the dimension, and its size is their number. For example,
    if 3 of a dimension's 5 values occur, the sizes are 1, 1, 1 and 2.
    """
    if not isinstance(dimension, Range):
        occur, places = np.unique([rank_of(dimension.values, value) for value in values], return_inverse=True)
        return places, np.append(np.ones(len(occur)), len(dimension.values) - len(occur))
    low, high, numbers = (np.log(n) if dimension.log else n for n in (dimension.low, dimension.high, np.array(values)))
    num_places = _MOST_PLACES
    if dimension.integer:
        count = int(dimension.high - dimension.low) + 1
        num_places = min(num_places, math.ceil(math.log2(count)) + 1 if dimension.log else count)
    # Like Optuna, round a value in the middle between two cells down.
    places = np.ceil((numbers - low) / ((high - low) / (num_places - 1)) - 0.5).astype(int)
    return np.clip(places, 0, num_places - 1), np.ones(num_places)


def _density(counts: Any) -> Any:
    """Return the density in each grid cell of a range; `counts` has the number of values in each cell.

    The result and `counts` have one row for each set of trials, and one column for each cell.

    The density is the mean of normal kernels: one per value, and one in the middle of the grid. Each kernel is
    truncated at the ends of the grid. The standard deviation of the kernel in the middle is the number of cells. The
    standard deviation of the other kernels follows Scott's rule, but is at least 0.5 / 1.64 cells. At this minimum,
    90 % of a kernel is in one cell.

    Source: Scott 1992, "Multivariate Density Estimation", as in Optuna's `ScottParzenEstimator`, with its constants.
    """
    from scipy.special import ndtr  # here: it takes a while to load

    num_places = counts.shape[1]
    grid, number, up_to = np.arange(num_places), counts.sum(axis=1, keepdims=True), counts.cumsum(axis=1)
    mean = counts @ grid[:, np.newaxis] / np.maximum(1, number)
    deviation = np.sqrt((counts * (grid - mean) ** 2).sum(axis=1, keepdims=True) / np.maximum(1, number - 1))
    first_quarter = (up_to >= np.maximum(1, number // 4)).argmax(axis=1, keepdims=True)
    last_quarter = (up_to > number * 3 // 4).argmax(axis=1, keepdims=True)
    spread = np.minimum((last_quarter - first_quarter) / 1.34, deviation)
    width = np.maximum(1.059 * spread * np.maximum(1, number) ** -0.2, 0.5 / 1.64)
    edges = np.arange(num_places + 1) - 0.5

    def kernels(middle: Any, width: Any) -> Any:
        below = ndtr((edges - middle) / width)
        return np.diff(below) / (below[..., -1:] - below[..., :1])

    of_values = (counts[:, np.newaxis] @ kernels(grid[:, np.newaxis], width[:, np.newaxis]))[:, 0]
    return (of_values + kernels((num_places - 1) / 2, num_places)) / (number + 1) + 1e-12


def _density_of_choices(counts: Any, num_values: int) -> Any:
    """Return the density in each cell of a dimension that has `num_values` possible values.

    `counts[i, j]` is the number of trials in set i whose value is in cell j. The result has the same shape.

    The density is the weighted mean of two densities. The first is proportional to the smoothed counts; its weight is
    the sum of the set's counts. The second is uniform; its weight is 1.
    """
    number = counts.sum(axis=1, keepdims=True)
    smoothing = 1 / ((counts > 0).sum(axis=1, keepdims=True) + 1)
    smoothed = (counts + number * smoothing) / (1 + num_values * smoothing)
    return (smoothed + 1 / num_values) / (number + 1) + 1e-12


def shapley_values(
    space: Space, trials: Sequence[Trial], default: Point | None, winner: Trial | None
) -> dict[str, Contribution] | Missing:
    """Return the Shapley value of each hyperparameter in which winner and default differ, the largest first.

    The payoff of a set of hyperparameters is the predicted negative loss of the default configuration after these
    hyperparameters take the winner's settings. A surrogate fitted to `trials` predicts this loss. The Shapley values
    sum to the winner's predicted gain over the default configuration.

    A hyperparameter that exists only in the winner, or only in the default, has no Shapley value of its own. Its effect
    counts in the Shapley value of the hyperparameter on which its existence depends.

    If there is no Shapley value, return the reason.

    Source: the ablation game of HyperSHAP, Wever, Muschalik, Fumagalli & Lindauer 2025 (arXiv 2502.01276).
    """
    if len(trials) < FEWEST:
        return too_few(len(trials))
    if winner is None:
        return missing("there is no winner")
    if default is None:
        return missing("the default configuration is outside of the space")
    players = _players(space, default, winner.point)
    if not players:
        return missing("the winner is the default configuration")
    if len(players) > _MOST_PLAYERS:
        return missing(
            f"winner and default differ in {len(players)} hyperparameters; contributions are computed for at most "
            f"{_MOST_PLAYERS}"
        )
    sets = list(itertools.product((False, True), repeat=len(players)))
    mixed = []
    for members in sets:
        keys = {key for keys_of_player in itertools.compress(players.values(), members) for key in keys_of_player}
        rest = {key: value for key, value in default.items() if key not in keys}
        mixed.append(rest | {key: value for key, value in winner.point.items() if key in keys})
    ends = {point_key(default), point_key(winner.point)}
    values = _predicted(space, trials, mixed, ends) @ shapley_weights(sets)
    low, high = np.quantile(values, (0.025, 0.975), axis=0)
    parts = zip(values.mean(axis=0), low, high, strict=True)
    gains = {key: Contribution(*map(float, part)) for key, part in zip(players, parts, strict=True)}
    return dict(sorted(gains.items(), key=lambda item: (-item[1].gain, item[0])))


def best_share(number: int) -> float:
    """Return the share of the trials that count as the best: max(0.1, 5 / number).

    `number` is the number of all trials.
    """
    return max(0.1, _AMONG_BEST / number)


def too_few(number: int) -> Missing:
    """Return the reason for a missing result: `number` complete trials are too few."""
    return missing(f"at least {FEWEST} complete trials are needed; there are {number}")


def _players(space: Space, default: Point, winner: Point) -> dict[str, list[str]]:
    """Return the players of the Shapley game, as a dict from each player's key to the keys that the player changes.

    A player is a hyperparameter with different values in the points `default` and `winner`. Each player changes its own
    key. If only one of the two points has a hyperparameter, this hyperparameter is not a player. Instead, the player
    that switches the hyperparameter on or off also changes the hyperparameter's key. For example, if `momentum` exists
    only with `optimizer=sgd`, the result may be `{"optimizer": ["optimizer", "momentum"]}`.
    """
    players: dict[str, list[str]] = {}
    belongs: dict[str, str] = {}
    for dimension in space.dimensions:
        key = dimension.key
        before, after = default.get(key, _ABSENT), winner.get(key, _ABSENT)
        if before == after and isinstance(before, bool) == isinstance(after, bool):
            continue
        # If the key exists in only one of the two points, the key in its condition also differs and comes earlier.
        parent = next((belongs[name] for name in dimension.when if name in belongs), None)
        is_alone = parent is None or (before is not _ABSENT and after is not _ABSENT)
        belongs[key] = key if parent is None or is_alone else parent
        players.setdefault(belongs[key], []).append(key)
    return players


def _predicted(space: Space, trials: Sequence[Trial], points: Sequence[Point], always: Collection[str]) -> Any:
    """Return the predicted negative loss of each point in each fit, shape (fits, points).

    `always` has the `point_key` of two points: the default configuration and the winner. Each fit learns from a random
    sample of the trials, drawn with replacement, and from all trials at these two points. So the fit knows both points:
    if a point has only one trial, the prediction at this point is exactly the negative loss of the trial.

    A fit is a forest of extremely randomised trees, and each tree learns from all trials of the fit.

    Source: Geurts, Ernst & Wehenkel 2006, "Extremely randomized trees" (Machine Learning 63).
    """
    from sklearn.ensemble import ExtraTreesRegressor  # here: it takes a while to load

    def encoded(points: Iterable[Point]) -> Any:
        return np.array([[n for dimension in space.dimensions for n in _encoded(dimension, p)] for p in points])

    known, queries = encoded(trial.point for trial in trials), encoded(points)
    losses = np.array([trial.loss for trial in trials])
    always_used = np.array([place for place, trial in enumerate(trials) if point_key(trial.point) in always], dtype=int)
    rng = np.random.default_rng(0)
    gains = []
    for fit in range(_FITS):
        sample = np.concatenate([rng.integers(len(trials), size=min(len(trials), _MOST_TRIALS)), always_used])
        trees = ExtraTreesRegressor(_TREES, random_state=fit).fit(known[sample], losses[sample])
        gains.append(-trees.predict(queries))
    return np.array(gains)


def shapley_weights(sets: Sequence[Sequence[bool]]) -> Any:
    """Return the matrix of shape (subsets, players) that converts the payoffs of all subsets into Shapley values.

    Source: Shapley 1953, equation (1): a player's mean marginal contribution over all orders.
    """
    members = np.array(sets)
    players = members.shape[1]
    # Indexed by the number of players before this one.
    shares = np.array([1 / (players * math.comb(players - 1, before)) for before in range(players)])
    share = shares[members.sum(axis=1, keepdims=True) - members]
    return np.where(members, share, -share)


def _encoded(dimension: Dimension, point: Point) -> list[float]:
    """Return a dimension's value in a point as numbers for the surrogate.

    A value of `Choices` becomes a one-hot vector, or zeros if the point lacks the dimension. A value of any other
    dimension becomes its position in the dimension, from 0 to 1, or -1 if the point lacks the dimension.
    """
    if dimension.key not in point:
        return [0.0] * len(dimension.values) if isinstance(dimension, Choices) else [-1.0]
    value = point[dimension.key]
    if isinstance(dimension, Range):
        return [dimension.to_unit(value)]
    rank, count = rank_of(dimension.values, value), len(dimension.values)
    return [float(rank == k) for k in range(count)] if isinstance(dimension, Choices) else [rank / max(1, count - 1)]
