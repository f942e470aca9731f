"""Selects the most promising candidates, judged by the results of nearby trials."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hpo.trials.fronts import hypervolume, is_on_front, scale_of, scaled
from hpo.trials.history import History
from hpo.trials.ranking import one_loss
from hpo.trials.space.dimensions import Dimension, Range, Value
from hpo.trials.space.space import Point, Space
from hpo.trials.trial import Trial

# How fast the weight of a trial falls with its distance: a step to the next of five ordered values (distance 0.25)
# divides the weight by 12, and another choice (distance 1) divides it by 22,000. From 5 to 16, the quality of
# evolutionary search differs by less than its noise.
_SHARPNESS = 10.0
# Only this many of the latest trials are used, which bounds the time of a proposal in a long study.
MEMORY = 300
# The largest number of rows in the cache of coordinates, so that a long study needs no more memory than a short one.
MOST_ROWS = 10 * MEMORY
# The assumed rank of a pending trial (0 = best, 1 = worst). The middle rank keeps most candidates away from it. From
# 0.2 to 0.8, the quality of evolutionary search on 8 and 32 lanes differs by less than its noise.
_PENDING = 0.5
# A point is feasible enough if this weighted share of the trials near it did not fail. With 1, the search would stay in
# the middle of the feasible region, but the best points are often at its border: the regret doubles if a fifth of the
# space is infeasible.
_FEASIBLE = 0.7

# The exponent of a candidate's probability to be within the limits, and the ridge penalty of the model that predicts
# it. On the tables of benchmarks/fronts, where the best points are at the border, proposed trials exceed a limit half
# as often as random trials. With higher exponents, they exceed it less often, but the search finds the best point
# within the limit later.
_LIMIT_POWER, _RIDGE = 1.5, 0.1
# A point is safe enough if its expected share of trials within the limits is at least this.
_WITHIN = 0.6
# With this many metrics or more, computing hypervolumes for each proposal would take too long.
_MANY = 4

Array = NDArray[np.float64]


class Preselection:
    """Rates candidates by the results of nearby trials; its only state is a cache of coordinates.

    The expected result of a candidate is a weighted mean of the results of the trials. A trial at a distance d from the
    candidate has the weight exp(-10 d). The distance between two points is the sum of their differences in all
    dimensions. In an ordered dimension, the difference is a share of the dimension's length (with `log`, on the
    logarithmic scale). The difference is 1 for different unordered choices, and for a dimension that only one of the
    points has. If `penalizes_pending` is true, candidates near pending trials are rated lower.

    Source: Nadaraya-Watson kernel regression (1964) as a cheap surrogate for the pre-selection of offspring (Jin 2011,
    "Surrogate-assisted evolutionary computation: recent advances and future challenges", section 3).
    """

    def __init__(self, space: Space, penalizes_pending: bool = False) -> None:
        self._penalizes_pending = penalizes_pending
        self._dimensions = space.dimensions
        self._is_ordered = np.array([dimension.ordered for dimension in space.dimensions])
        self._places = [_places(dimension) for dimension in space.dimensions]
        # The cached coordinates, one row per point, and the row number of each point by its key.
        self._rows = np.empty((0, len(space.dimensions)))
        self._row_of: dict[str, int] = {}

    def most_promising(
        self, known: Sequence[Trial], pending: Sequence[Trial], candidates: Sequence[Point], count: int
    ) -> list[Point]:
        """Return the `count` most promising candidates, the best first; ties go to the earlier candidate.

        With one metric, candidates are ordered by gain; for several metrics, see below. The gain of a candidate is its
        rating times the factors below. The rating is 1 minus the expected rank. The expected rank is a weighted mean of
        the trials' ranks, without failed trials. Trials near the candidate have more weight (see the class). Ranks go
        from 0 (the best trial) to 1 (the worst); with several metrics, `one_loss` gives the order. Pending trials have
        the rank 0.5. Ranks are used instead of losses, because diverged trials would dominate a mean of losses. The
        factors:

        - Feasibility: the weighted share of trials that did not fail. Trials near the candidate have more weight. So
          the search avoids the regions of failed trials (Gelbart, Snoek & Adams 2014, "Bayesian optimization with
          unknown constraints": expected improvement times probability of feasibility).
        - Limits, if any trial exceeds one: the candidate's predicted probability of being within the limits, to the
          power of 1.5.
        - Pending trials, if they are penalized: 1 - exp(-10 d), where d is the distance to the nearest pending trial.
          So concurrent proposals spread out. While no result is known, the candidate farthest from pending trials is
          the best. But distances above 3.7 count as equal, because their factor is 1 in floating point. (Gonzalez et
          al. 2016, "Batch Bayesian optimization via local penalization"; with the number 10 in place of their Lipschitz
          constant.)

        With two or three metrics, candidates are ordered by volume: the hypervolume that the candidate is expected to
        add to the front, times the factors above. Candidates of equal volume are ordered by gain. With four or more
        metrics, all candidates are ordered by gain.
        """
        trials = known[-MEMORY:]
        failed = np.array([trial.state == "failed" for trial in trials], dtype=bool)
        losses = one_loss([trial for trial in trials if trial.state != "failed"])
        # The rank of a trial is the share of trials that are better, so trials of equal loss have the same rank.
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
            # Use `take`, not a mask. A mask would change the memory order, and so the last bits of the sums, which can
            # decide ties.
            others = np.append(np.flatnonzero(~failed), np.arange(len(trials), distances.shape[1]))
            weights = _weights(distances.take(others, axis=1))
            gains = factors * (1 - weights @ ranks / weights.sum(axis=1))
        added = factors * self._added_volumes(candidates, trials)
        return [candidates[int(i)] for i in np.lexsort((-gains, -added))[:count]]

    def most_feasible(self, known: History, candidates: Sequence[Point], count: int) -> list[Point]:
        """Return the first `count` candidates that are feasible enough.

        A candidate is feasible enough if two conditions hold. The share of trials that did not fail, weighted by
        nearness to the candidate, is at least `_FEASIBLE`. The predicted probability that the candidate keeps the
        limits is at least `_WITHIN`. If fewer than `count` candidates are feasible enough, add the most feasible of the
        other candidates.
        """
        trials = known[-MEMORY:]
        failed = np.array([trial.state == "failed" for trial in trials], dtype=bool)
        gains = np.minimum(_feasibility(self._distances(candidates, trials), failed), _FEASIBLE)
        if (within := self.share_within_limits(candidates, trials)) is not None:
            gains = gains * np.minimum(within, _WITHIN)
        return [candidates[int(i)] for i in np.argsort(-gains, kind="stable")[:count]]

    def share_within_limits(self, candidates: Sequence[Point], trials: Sequence[Trial]) -> Array | None:
        """Return the predicted probability, from 0.01 to 0.99, that each candidate keeps the limits.

        Return None if no complete trial exceeds a limit. A linear model predicts this probability, because values with
        limits (such as size, time and memory) rise or fall with most hyperparameters.
        """
        complete = [trial for trial in trials if trial.state == "complete"]
        over = np.array([trial.excess > 0 for trial in complete], dtype=float)
        if not over.any():
            return None
        within: Array = np.clip(1 - self._linear(complete, over, candidates)[1], 0.01, 0.99)
        return within

    def _added_volumes(self, candidates: Sequence[Point], trials: Sequence[Trial]) -> Array:
        """Return the hypervolume that each candidate is expected to add to the front.

        Return zeros if no trial is within the limits, if the trials differ in fewer than two metrics, or with `_MANY`
        or more metrics. The expected (scaled) losses of a candidate are the prediction of a linear model plus the
        weighted mean of the model's residuals at the trials near the candidate.
        """
        complete = [trial for trial in trials if trial.state == "complete"]
        losses = np.array([trial.losses for trial in complete])
        front = losses[[trial.keeps_limits for trial in complete]]
        if not len(front) or (np.ptp(losses, axis=0) > 0).sum() < 2 or losses.shape[1] >= _MANY:
            return np.zeros(len(candidates))
        scale = scale_of(losses)
        units = scaled(losses, scale)
        fitted, expected = self._linear(complete, units, candidates)
        weights = _weights(self._distances(candidates, complete))
        expected = expected + weights @ (units - fitted) / weights.sum(axis=1, keepdims=True)
        members = scaled(front[is_on_front(front)], scale)
        volumes = np.array([hypervolume(np.vstack((members, one))) for one in expected])
        return volumes - hypervolume(members)

    def _linear(self, trials: Sequence[Trial], values: Array, candidates: Sequence[Point]) -> tuple[Array, Array]:
        """Return a ridge regression's predictions (Hoerl & Kennard 1970) for the trials, and for the candidates."""
        known = self._features(self._rows_of(trials))
        new = self._features(np.array([self._row(point) for point in candidates]))
        middle, mean = known.mean(axis=0), values.mean(axis=0)
        apart = known - middle
        if len(apart) < apart.shape[1]:
            # Solve the dual form, which has fewer equations if there are more features than trials.
            slopes = apart.T @ np.linalg.solve(apart @ apart.T + _RIDGE * np.eye(len(apart)), values - mean)
        else:
            slopes = np.linalg.solve(apart.T @ apart + _RIDGE * np.eye(apart.shape[1]), apart.T @ (values - mean))
        return mean + apart @ slopes, mean + (new - middle) @ slopes

    def _features(self, rows: Array) -> Array:
        """Turn coordinates into features for a linear model, shape (rows, features); choices are one-hot encoded."""
        ordered = np.nan_to_num(rows[:, self._is_ordered], nan=0.5)
        choices = [
            rows[:, [column]] == np.array(list(places.values()))
            for column, places in enumerate(self._places)
            if not self._is_ordered[column]
        ]
        return np.hstack([ordered, *choices]).astype(float)

    def _distances(self, candidates: Sequence[Point], trials: Sequence[Trial]) -> Array:
        """Return the distances between candidates and trials, shape (candidates, trials)."""
        left = np.array([self._row(point) for point in candidates])[:, None]
        right = self._rows_of(trials)[None]
        apart = np.abs(left - right)
        if not self._is_ordered.all():
            apart[..., ~self._is_ordered] = np.sign(apart[..., ~self._is_ordered])
        # Only spaces with conditions have NaN. Check the coordinates, because they are fewer than the distances.
        if np.isnan(left).any() or np.isnan(right).any():
            apart = np.where(np.isnan(apart), np.isnan(left) != np.isnan(right), apart)
        distances: Array = apart.sum(axis=-1)
        return distances

    def _rows_of(self, trials: Sequence[Trial]) -> Array:
        """Return the coordinates of trials from the cache, shape (trials, dimensions)."""
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
        """Return a point's coordinate in each dimension: a number from 0 to 1, or NaN if the dimension is inactive."""
        return [
            _place(dimension, places, point[dimension.key]) if dimension.key in point else np.nan
            for dimension, places in zip(self._dimensions, self._places, strict=True)
        ]


def _feasibility(distances: Array, failed: NDArray[np.bool]) -> Array:
    """Return the weighted share of trials that did not fail; trials near the candidate have more weight.

    `distances` has the shape (candidates, trials). The result has one share per candidate.
    """
    if not failed.any():
        return np.ones(len(distances))
    weights = _weights(distances)
    feasible: Array = 1 - weights @ failed / weights.sum(axis=1)
    return feasible


def _weights(distances: Array) -> Array:
    """Return the weight of each trial for each candidate, shape (candidates, trials)."""
    # Use distances relative to the nearest trial, so that the weights of a remote candidate do not all underflow to 0.
    weights: Array = np.exp(-_SHARPNESS * (distances - distances.min(axis=1, keepdims=True)))
    return weights


def _places(dimension: Dimension) -> dict[Value, float]:
    """Return the coordinate of each value of a finite dimension; empty for a range."""
    if isinstance(dimension, Range):
        return {}
    return {value: i / max(len(dimension.values) - 1, 1) for i, value in enumerate(dimension.values)}


def _place(dimension: Dimension, places: dict[Value, float], value: Value) -> float:
    return dimension.to_unit(value) if isinstance(dimension, Range) else places[value]
