"""A strategy's points, and their trials, for loops of other libraries that train points completely."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hpo.engine.space.space import Point
from hpo.engine.strategies import Strategy
from hpo.engine.trials.history import History
from hpo.engine.trials.reported import number
from hpo.engine.trials.trial import Direction, Proposal, Trial, loss_of
from hpo.errors import ConfigError


def next_points(strategy: Strategy, known: History, pending: Sequence[Trial]) -> Sequence[Point]:
    """Return the strategy's next points; ConfigError for amounts of training, which only our own search supports."""
    points: list[Point] = []
    for proposed in strategy.propose(known, pending):
        if isinstance(proposed, Proposal):
            if proposed.amount is not None or proposed.continues is not None:
                raise ConfigError(
                    f"strategy: one that trains by amounts needs `hpo search`, given '{strategy.announcement}'; "
                    f"use another strategy, with a scheduler or pruner of the other library"
                )
            proposed = proposed.point
        points.append(proposed)
    return points


def closed(trial: Trial, score: Any, direction: Direction) -> Trial:
    """Return the trial with its score; failed where that is not a finite number, of Python or of NumPy."""
    checked = None if isinstance(score, bool) else number(score)
    if checked is None:
        return replace(trial, state="failed")
    return replace(trial, state="complete", score=float(checked), loss=loss_of(float(checked), direction))
