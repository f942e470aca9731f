"""A strategy's round as plain points, for loops that train every point completely."""

from collections.abc import Sequence

from hpo.engine.space.space import Point
from hpo.engine.strategies import Strategy
from hpo.engine.trials.history import History
from hpo.engine.trials.trial import Proposal
from hpo.errors import ConfigError


def next_points(strategy: Strategy, history: History) -> Sequence[Point]:
    """Return the strategy's next round; ConfigError for amounts of training, which only our own search supports."""
    points: list[Point] = []
    for proposed in strategy.next_round(history):
        if isinstance(proposed, Proposal):
            if proposed.amount is not None or proposed.continues is not None:
                raise ConfigError(
                    f"strategy: one that trains by amounts needs `hpo search`, given '{strategy.announcement}'; "
                    f"use another strategy, with a scheduler or pruner of the other library"
                )
            proposed = proposed.point
        points.append(proposed)
    return points
