"""The scores that a training has to keep up with."""

from collections.abc import Mapping, Sequence
from typing import Any

from hpo.engine.trials.trial import Direction, loss_of


class Limits:
    """Says when a training is to be stopped, from the points of its learning curve.

    Args:
        scores: what the best score so far must not be worse than, by place on the curve; None = any; after the last
            one, that holds.
        metric, direction: of the score.

    Attributes:
        best: the best score so far; None before the first.
    """

    def __init__(self, scores: Sequence[float | None], metric: str, direction: Direction) -> None:
        self._scores = scores
        self._metric = metric
        self._direction: Direction = direction
        self._place = 0
        self.best: float | None = None

    def stops(self, point: Mapping[str, Any]) -> str | None:
        """Take the next point of the curve; return why the training is to be stopped there, or None."""
        self._place += 1
        score = point.get(self._metric)
        if score is None:
            return None
        if self.best is None or self._loss(score) < self._loss(self.best):
            self.best = score
        limit = self._scores[min(self._place, len(self._scores)) - 1] if self._scores else None
        if limit is None or self._loss(self.best) <= self._loss(limit):
            return None
        return f"at point {self._place} ({self.best:.4g}, median {limit:.4g})"

    def _loss(self, score: float) -> float:
        return loss_of(score, self._direction)
