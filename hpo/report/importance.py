"""What each hyperparameter matters: for reaching the best trials, and for the winner's gain over the default."""

import itertools
import math
import warnings
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from hpo.report.part import Absent
from hpo.trials.space.dimensions import Choices, Dimension, Range, Value
from hpo.trials.space.space import Point, Space, point_key
from hpo.trials.trial import Direction, Trial

# Optuna's PED-ANOVA needs five trials among the best; of ten, these are half.
FEWEST, _AMONG_BEST = 10, 5
# Fits of the surrogate, each to so many trials at most; 2^12 subsets are predicted in a moment.
_FITS, _TREES, _MOST_TRIALS, _MOST_PLAYERS = 20, 20, 1_000, 12
_ABSENT = object()


@dataclass(frozen=True)
class Contribution:
    """Part of a gain in the units of the metric, above 0 is better: mean over fits, and ends of their middle 95 %."""

    gain: float
    low: float
    high: float


def importances(
    space: Space, direction: Direction, trials: Sequence[Trial], scores: Sequence[float]
) -> dict[str, float] | Absent:
    """Return the share of each hyperparameter that was searched, the most important first; shares sum to 1.

    The share measures how far its values among the best trials (see `best_share`) differ from those among all trials,
    which have comparable `scores` of one metric. Each hyperparameter is considered alone. A dimension with one value
    has no share.

    Source: PED-ANOVA, Watanabe, Bansal & Hutter 2023 (arXiv 2304.10255), as `optuna.importance` computes it, with
    conditional hyperparameters as in arXiv 2601.20800.
    """
    if len(trials) < FEWEST:
        return too_few(len(trials))
    if len(set(scores)) == 1:
        return Absent("all complete trials have the same score")
    import optuna
    from optuna.distributions import CategoricalDistribution
    from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances

    from hpo.trials.record.rows import distribution

    kinds = {
        d.key: distribution(d) if isinstance(d, Range) else CategoricalDistribution(range(len(d.values)))
        for d in space.dimensions
    }
    keys = sorted({key for trial in trials for key in trial.point})
    with _quiet():
        study = optuna.create_study(direction=direction)
        for trial, score in zip(trials, scores, strict=True):
            there = {key: kinds[key] for key in trial.point}
            # Optuna treats true as 1, so values that are no numbers of a range are their ranks.
            params = {k: v if isinstance(space[k], Range) else rank_of(space[k], v) for k, v in trial.point.items()}
            study.add_trial(optuna.create_trial(params=params, distributions=there, value=score))
        evaluator = PedAnovaImportanceEvaluator(target_quantile=best_share(len(trials)))
        # Optuna's own names come from a set, whose order differs between processes.
        raw = get_param_importances(study, evaluator=evaluator, params=keys, normalize=False)
    total = sum(raw.values())
    if not total:
        return Absent("the best trials have the same values as all the others")
    return {key: float(raw[key] / total) for key in sorted(keys, key=lambda key: (-raw[key], key))}


def shapley_values(
    space: Space, trials: Sequence[Trial], default: Point | None, winner: Trial | None
) -> dict[str, Contribution] | Absent:
    """Return the Shapley value of each hyperparameter in which winner and default differ, the largest first.

    The value of a set of hyperparameters is the score that a surrogate of the complete trials predicts where they have
    the winner's values and the others the default's; so the contributions sum to the winner's gain, as predicted. A
    hyperparameter that exists in one of the two only belongs to the one that its condition names.

    Source: the ablation game of HyperSHAP, Wever, Muschalik, Fumagalli & Lindauer 2025 (arXiv 2502.01276).
    """
    if len(trials) < FEWEST:
        return too_few(len(trials))
    if default is None or winner is None:
        return Absent("the default configuration lies outside of the space")
    players = _players(space, default, winner.point)
    if not players:
        return Absent("the winner is the default configuration")
    if len(players) > _MOST_PLAYERS:
        return Absent(f"the winner differs from it in {len(players)} hyperparameters, more than {_MOST_PLAYERS}")
    sets = list(itertools.product((False, True), repeat=len(players)))
    mixed = []
    for members in sets:
        keys = {key for those in itertools.compress(players.values(), members) for key in those}
        kept = {key: value for key, value in default.items() if key not in keys}
        mixed.append(kept | {key: value for key, value in winner.point.items() if key in keys})
    ends = {point_key(default), point_key(winner.point)}
    values = _predicted(space, trials, mixed, ends) @ _weights(sets)
    low, high = np.quantile(values, (0.025, 0.975), axis=0)
    parts = zip(values.mean(axis=0), low, high, strict=True)
    gains = {key: Contribution(*map(float, part)) for key, part in zip(players, parts, strict=True)}
    return dict(sorted(gains.items(), key=lambda item: (-item[1].gain, item[0])))


def best_share(number: int) -> float:
    """Return the share of so many trials that counts as the best: a tenth, but at least five trials."""
    return max(0.1, _AMONG_BEST / number)


def too_few(number: int) -> Absent:
    """Return why there are no importances."""
    return Absent(f"it takes {FEWEST} complete trials to say anything; there are {number}")


def rank_of(dimension: Dimension, value: Value) -> int:
    """Return the place of a value of a finite dimension; true and 1 are two values."""
    return next(
        k for k, v in enumerate(dimension.values) if v == value and isinstance(v, bool) == isinstance(value, bool)
    )


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence Optuna, which says that the evaluator is new and that parts of a conditional space have few trials."""
    import optuna

    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        optuna.logging.set_verbosity(verbosity)


def _players(space: Space, default: Point, winner: Point) -> dict[str, list[str]]:
    """Return what has its own part of the gain: hyperparameters that differ, with those that exist beside them only."""
    players: dict[str, list[str]] = {}
    belongs: dict[str, str] = {}
    for dimension in space.dimensions:
        key = dimension.key
        before, after = default.get(key, _ABSENT), winner.get(key, _ABSENT)
        if before == after and isinstance(before, bool) == isinstance(after, bool):
            continue
        # Where it exists in one of the two only, what it depends on differs, and stands before it.
        parent = next((belongs[name] for name in dimension.when if name in belongs), None)
        is_alone = parent is None or (before is not _ABSENT and after is not _ABSENT)
        belongs[key] = key if parent is None or is_alone else parent
        players.setdefault(belongs[key], []).append(key)
    return players


def _predicted(space: Space, trials: Sequence[Trial], points: Sequence[Point], always: Collection[str]) -> Any:
    """Return the negative loss of each point in each fit, shape (fits, points).

    A fit has a sample of the trials with replacement, and those at the points `always`, so that it knows both ends of
    the gain. Its trees are extremely randomised and have every trial of the sample: they meet its scores exactly.

    Source: Geurts, Ernst & Wehenkel 2006, "Extremely randomized trees" (Machine Learning 63).
    """
    from sklearn.ensemble import ExtraTreesRegressor  # here: it takes a while to load

    def encoded(points: Iterable[Point]) -> Any:
        return np.array([[n for dimension in space.dimensions for n in _encoded(dimension, p)] for p in points])

    known, asked = encoded(trial.point for trial in trials), encoded(points)
    losses = np.array([trial.loss for trial in trials])
    kept = np.array([place for place, trial in enumerate(trials) if point_key(trial.point) in always], dtype=int)
    rng = np.random.default_rng(0)
    gains = []
    for fit in range(_FITS):
        sample = np.concatenate([rng.integers(len(trials), size=min(len(trials), _MOST_TRIALS)), kept])
        trees = ExtraTreesRegressor(_TREES, random_state=fit).fit(known[sample], losses[sample])
        gains.append(-trees.predict(asked))
    return np.array(gains)


def _weights(sets: Sequence[Sequence[bool]]) -> Any:
    """Return the matrix that turns the values of all subsets into Shapley values, shape (subsets, players).

    Source: Shapley 1953, equation (1): a player's mean marginal contribution over all orders.
    """
    members = np.array(sets)
    players = members.shape[1]
    # By how many others there are before the player.
    shares = np.array([1 / (players * math.comb(players - 1, before)) for before in range(players)])
    share = shares[members.sum(axis=1, keepdims=True) - members]
    return np.where(members, share, -share)


def _encoded(dimension: Dimension, point: Point) -> list[float]:
    """Return a value as numbers: an ordered one by its place from 0 to 1, -1 if absent, a choice as one of many."""
    if dimension.key not in point:
        return [0.0] * len(dimension.values) if isinstance(dimension, Choices) else [-1.0]
    value = point[dimension.key]
    if isinstance(dimension, Range):
        assert isinstance(value, int | float)
        return [dimension.to_unit(value)]
    rank, count = rank_of(dimension, value), len(dimension.values)
    return [float(rank == k) for k in range(count)] if isinstance(dimension, Choices) else [rank / max(1, count - 1)]
