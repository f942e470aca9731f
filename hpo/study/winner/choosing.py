"""Chooses one trial of a front, as `study.choose` says."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hpo.config.goals import Choice, share_of
from hpo.trials.fronts import Array, scale_of, scaled
from hpo.trials.goal import Goal
from hpo.trials.trial import Trial


def choose(front: Sequence[Trial], goal: Goal, choice: Choice) -> Trial:
    """Return the trial of a front, of at least one, that a choice takes; ties go to the earlier trial.

    - `knee`: the least sum of the losses, scaled from the best to the worst of the front: with two metrics the trial
      farthest from the straight line between the front's ends (Das 1999, "On characterizing the 'knee' of the Pareto
      curve based on normal-boundary intersection").
    - `first_within_limits`: the best of the leading metric.
    - weights by metric: the least sum of the scaled losses by these weights; a metric without one has none.
    - `{best: a, within: {b: share}}`: the best of `a` among those whose `b` is worse than the front's best by at most
      this share of its size; where the shares leave none, those that are beyond them by the least.
    """
    losses = np.array([trial.losses for trial in front])
    names = list(goal.metrics)
    if choice == "first_within_limits":
        keys = losses[:, 0]
    elif choice == "knee":
        keys = scaled(losses, scale_of(losses)).sum(axis=1)
    elif isinstance(choice, Mapping) and "within" in choice:
        beyond, best = _beyond(losses, names, choice["within"]), names.index(choice["best"])
        keys = np.where(beyond == beyond.min(), losses[:, best], np.inf)
    else:
        assert isinstance(choice, Mapping)
        weights = np.array([choice.get(name, 0.0) for name in names])
        keys = scaled(losses, scale_of(losses)) @ weights
    ranked = sorted(range(len(front)), key=lambda place: (keys[place], front[place].number))
    return front[ranked[0]]


def chosen_first(leaders: Sequence[Trial], front: Sequence[Trial], goal: Goal, choice: Choice) -> list[Trial]:
    """Return the leaders of a search, with several metrics the chosen one of its front before them."""
    if len(goal.metrics) == 1 or not front:
        return list(leaders)
    chosen = choose(front, goal, choice)
    return [chosen, *(trial for trial in leaders if trial.number != chosen.number)]


def _beyond(losses: Array, names: Sequence[str], shares: Mapping[str, Any]) -> Array:
    """Return how far each trial is beyond the shares, 0 within: the sum over the metrics, as shares of their best."""
    beyond = np.zeros(len(losses))
    for name, share in shares.items():
        column = losses[:, names.index(name)]
        best = column.min()
        beyond += np.maximum(0.0, (column - best) / (abs(best) or 1.0) - share_of(share))
    return beyond
