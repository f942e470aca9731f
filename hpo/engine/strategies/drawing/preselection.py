"""Selects candidates by the results of nearby trials."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hpo.trials.fronts import hypervolume, is_on_front, scale_of, scaled
from hpo.trials.history import History
from hpo.trials.ranking import one_loss
from hpo.trials.space.dimensions import Dimension, Range, Value
from hpo.trials.space.space import Point, Space
from hpo.trials.trial import Trial

# How fast a trial's weight falls with its distance: one to the next of five ordered values (0.25) divides it by 12, one
# to another choice (1) by 22,000. From 5 to 16 the quality of evolutionary search differs by less than its noise.
_SHARPNESS = 10.0
# Only the latest trials are used: this bounds the time of a proposal in a long study.
MEMORY = 300
# Coordinates that are kept, so that a long study needs no more memory than a short one.
MOST_ROWS = 10 * MEMORY
# The rank that a pending trial counts with: the middle, so that few go where others are on their way. From 0.2 to 0.8
# the quality of evolutionary search on 8 and 32 lanes differs by less than its noise.
_PENDING = 0.5
# Where so many of the trials near a point did not fail it is as good as any. With 1 the search keeps to the middle of
# what can be trained, and its regret doubles where a fifth cannot; the best are often at the border.
_FEASIBLE = 0.7

# How sharply candidates that may exceed a limit are left out, and how much a slope costs. With these, trials exceed a
# limit half as often as random ones on the tables of benchmarks/fronts, where the best lie at the border; with
# higher powers less often, and the best within the limit is found later.
_LIMIT_POWER, _RIDGE = 1.5, 0.1
# As _FEASIBLE, of the share that keeps the limits.
_WITHIN = 0.6
# From so many metrics on the hypervolume of a front takes too long for each proposal.
_MANY = 4

Array = NDArray[np.float64]


class Preselection:
    """Compares points with the trials near them; it keeps the coordinates of trials, and nothing that changes answers.

    The weight of a trial is exp(-10 x distance): the distance is the sum over the dimensions of the difference of the
    two values, as a share of the (log) range; 1 for different choices, and where only one of the two points has the
    dimension. Where it `penalizes_pending`, candidates near pending trials count for less.

    Source: Nadaraya-Watson kernel regression (1964) as a cheap surrogate for the pre-selection of offspring (Jin 2011,
    "Surrogate-assisted evolutionary computation: recent advances and future challenges", section 3).
    """

    def __init__(self, space: Space, penalizes_pending: bool = False) -> None:
        self._penalizes_pending = penalizes_pending
        self._dimensions = space.dimensions
        self._is_ordered = np.array([dimension.ordered for dimension in space.dimensions])
        self._places = [_places(dimension) for dimension in space.dimensions]
        # The coordinates of trials, one row each, and the row of each by the trial's key.
        self._rows = np.empty((0, len(space.dimensions)))
        self._row_of: dict[str, int] = {}

    def most_promising(
        self, known: Sequence[Trial], pending: Sequence[Trial], candidates: Sequence[Point], count: int
    ) -> list[Point]:
        """Return the `count` candidates of the highest expected gain, best first; ties to the earlier candidate.

        It is the share of known trials near the candidate that did not fail, times 1 - its expected rank: the weighted
        mean of the ranks of those (0 = best; with several metrics in the order of `one_loss`), pending ones in the
        middle. Ranks, not losses, so that diverged trials do not dominate; and a factor for feasibility, so that the
        search keeps away from failures (Gelbart, Snoek & Adams 2014, "Bayesian optimization with unknown constraints":
        expected improvement times probability of feasibility). Where trials exceed a limit, another one is the expected
        share of those that keep it, to the power of 1.5; what they say of the loss counts all the same.

        A last factor, where pending trials are penalized, is 1 - exp(-10 x distance) to the nearest of them: many
        lanes spread out, and while nothing is known the farthest candidate is the best, up to a distance of 3.7, where
        the factor is 1 in floating point (Gonzalez et al. 2016, "Batch Bayesian optimization via local penalization",
        with the kernel of above in place of a Lipschitz constant).

        With two or three metrics the gain is first what the candidate is expected to add to the hypervolume of the
        front, times the same factors; equals come in the order of above.
        """
        trials = known[-MEMORY:]
        failed = np.array([trial.state == "failed" for trial in trials], dtype=bool)
        losses = one_loss([trial for trial in trials if trial.state != "failed"])
        # The share of better trials: equal losses share a rank.
        ranks = np.searchsorted(np.sort(losses), losses) / max(len(losses), 1)
        ranks = np.append(ranks, np.full(len(pending), _PENDING))
        distances = self._distances(candidates, [*trials, *pending])
        factors = _feasibility(distances[:, : len(trials)], failed)
        if (within := self.share_within_limits(candidates, trials)) is not None:
            factors = factors * within**_LIMIT_POWER
        if self._penalizes_pending and pending:
            factors = factors * (1 - np.exp(-_SHARPNESS * distances[:, len(trials) :].min(axis=1)))
        gains = factors
        if len(ranks):
            # Not by a mask: its columns lie otherwise in memory, and sums that differ in the last bit decide ties.
            others = np.append(np.flatnonzero(~failed), np.arange(len(trials), distances.shape[1]))
            weights = _weights(distances.take(others, axis=1))
            gains = factors * (1 - weights @ ranks / weights.sum(axis=1))
        added = factors * self._added_volumes(candidates, trials)
        return [candidates[int(i)] for i in np.lexsort((-gains, -added))[:count]]

    def most_feasible(self, known: History, candidates: Sequence[Point], count: int) -> list[Point]:
        """Return the first `count` candidates that are feasible enough, then the most feasible of the others."""
        trials = known[-MEMORY:]
        failed = np.array([trial.state == "failed" for trial in trials], dtype=bool)
        gains = np.minimum(_feasibility(self._distances(candidates, trials), failed), _FEASIBLE)
        if (within := self.share_within_limits(candidates, trials)) is not None:
            gains = gains * np.minimum(within, _WITHIN)
        return [candidates[int(i)] for i in np.argsort(-gains, kind="stable")[:count]]

    def share_within_limits(self, candidates: Sequence[Point], trials: Sequence[Trial]) -> Array | None:
        """Return the expected share of trials that keep the limits, .01 to .99, of each candidate; None if all do.

        By a linear model on whether a trial exceeds a limit, since what is limited (size, time, memory) rises or falls
        with most hyperparameters.
        """
        complete = [trial for trial in trials if trial.state == "complete"]
        over = np.array([trial.excess > 0 for trial in complete], dtype=float)
        if not over.any():
            return None
        within: Array = np.clip(1 - self._linear(complete, over, candidates)[1], 0.01, 0.99)
        return within

    def _added_volumes(self, candidates: Sequence[Point], trials: Sequence[Trial]) -> Array:
        """Return what each candidate is expected to add to the front's hypervolume; 0 with one metric, or with many.

        A metric in which all are equal does not count as one.

        Its losses, as shares of those seen, are expected by a linear model, and near trials by what that leaves.
        """
        complete = [trial for trial in trials if trial.state == "complete"]
        losses = np.array([trial.losses for trial in complete])
        front = losses[[trial.keeps_limits for trial in complete]]
        if not len(front) or (np.ptp(losses, axis=0) > 0).sum() < 2 or losses.shape[1] >= _MANY:
            return np.zeros(len(candidates))
        scale = scale_of(losses)
        units = scaled(losses, scale)
        there, expected = self._linear(complete, units, candidates)
        weights = _weights(self._distances(candidates, complete))
        expected = expected + weights @ (units - there) / weights.sum(axis=1, keepdims=True)
        members = scaled(front[is_on_front(front)], scale)
        volumes = np.array([hypervolume(np.vstack((members, one))) for one in expected])
        return volumes - hypervolume(members)

    def _linear(self, trials: Sequence[Trial], values: Array, candidates: Sequence[Point]) -> tuple[Array, Array]:
        """Return what ridge regression on the coordinates (Hoerl & Kennard 1970) says of trials and of candidates."""
        known = self._features(self._rows_of(trials))
        asked = self._features(np.array([self._row(point) for point in candidates]))
        middle, mean = known.mean(axis=0), values.mean(axis=0)
        apart = known - middle
        if len(apart) < apart.shape[1]:
            # The same slopes by as many equations as there are trials, where choices have many values.
            slopes = apart.T @ np.linalg.solve(apart @ apart.T + _RIDGE * np.eye(len(apart)), values - mean)
        else:
            slopes = np.linalg.solve(apart.T @ apart + _RIDGE * np.eye(apart.shape[1]), apart.T @ (values - mean))
        return mean + apart @ slopes, mean + (asked - middle) @ slopes

    def _features(self, rows: Array) -> Array:
        """Return coordinates for a linear model, shape (rows, features): of choices one for each value."""
        ordered = np.nan_to_num(rows[:, self._is_ordered], nan=0.5)
        choices = [
            rows[:, [column]] == np.array(list(places.values()))
            for column, places in enumerate(self._places)
            if not self._is_ordered[column]
        ]
        return np.hstack([ordered, *choices]).astype(float)

    def _distances(self, candidates: Sequence[Point], trials: Sequence[Trial]) -> Array:
        """Return the distance of each candidate to each trial: shape (candidates, trials)."""
        left = np.array([self._row(point) for point in candidates])[:, None]
        right = self._rows_of(trials)[None]
        apart = np.abs(left - right)
        if not self._is_ordered.all():
            apart[..., ~self._is_ordered] = np.sign(apart[..., ~self._is_ordered])
        # Coordinates are fewer than distances, and NaN only in spaces with conditions.
        if np.isnan(left).any() or np.isnan(right).any():
            apart = np.where(np.isnan(apart), np.isnan(left) != np.isnan(right), apart)
        distances: Array = apart.sum(axis=-1)
        return distances

    def _rows_of(self, trials: Sequence[Trial]) -> Array:
        """Return the coordinates of trials: shape (trials, dimensions)."""
        new = [trial for trial in trials if trial.key not in self._row_of]
        if len(self._row_of) + len(new) > len(self._rows):
            self._row_of.clear()
            self._rows = np.empty((max(MOST_ROWS, 2 * len(trials)), len(self._dimensions)))
            new = list(trials)
        for trial in new:
            if trial.key not in self._row_of:
                self._rows[len(self._row_of)] = self._row(trial.point)
                self._row_of[trial.key] = len(self._row_of)
        rows: Array = self._rows[[self._row_of[trial.key] for trial in trials]]
        return rows

    def _row(self, point: Point) -> list[float]:
        """Return a point's place in every dimension: 0 to 1 where ordered, NaN where it has none."""
        return [
            _place(dimension, places, point[dimension.key]) if dimension.key in point else np.nan
            for dimension, places in zip(self._dimensions, self._places, strict=True)
        ]


def _feasibility(distances: Array, failed: NDArray[np.bool]) -> Array:
    """Return the weighted share of trials that did not fail, 0 to 1, of each candidate."""
    if not failed.any():
        return np.ones(len(distances))
    weights = _weights(distances)
    feasible: Array = 1 - weights @ failed / weights.sum(axis=1)
    return feasible


def _weights(distances: Array) -> Array:
    """Return the weight of each trial for each candidate: shape (candidates, trials)."""
    # Relative to the nearest trial, so that the weights of a far candidate do not all vanish.
    weights: Array = np.exp(-_SHARPNESS * (distances - distances.min(axis=1, keepdims=True)))
    return weights


def _places(dimension: Dimension) -> dict[Value, float]:
    """Return the place of each value of a finite dimension."""
    if isinstance(dimension, Range):
        return {}
    return {value: i / max(len(dimension.values) - 1, 1) for i, value in enumerate(dimension.values)}


def _place(dimension: Dimension, places: dict[Value, float], value: Value) -> float:
    if not isinstance(dimension, Range):
        return places[value]
    assert isinstance(value, int | float)
    return dimension.to_unit(value)
