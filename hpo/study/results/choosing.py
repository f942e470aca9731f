"""Chooses the best trial of a search, and says why; or why there is none."""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from hpo.config.goals import Choice, metrics_of, share_of
from hpo.config.sections import StudySection
from hpo.trials.fronts import Array, scale_of, scaled
from hpo.trials.goal import Goal
from hpo.trials.history import History
from hpo.trials.ranking import front
from hpo.trials.score_format import values_in_words
from hpo.trials.trial import Trial


def choose_best(
    section: StudySection, goal: Goal, trials: Sequence[Trial], again: Sequence[Trial] = (), *, at_target: bool = True
) -> Trial | None:
    """Return the winner among the finished trials of a search, or the best so far; None where there is none.

    With one metric it is the best trial, or the cheapest of those as good (`study.winner`); with several the one that
    `study.choose` takes of the front. None keeps the limits, or none is complete: there is none.

    Args:
        again: the finalists as trained on fresh seeds, which decide once all of them are trained.
        at_target: whether a winner must be of the target scale; the best so far need not.
    """
    others = decided_by(again) or trials
    first = front(others)
    if not first or (at_target and first[0].scale < goal.target):
        return None
    chosen = first[0]
    if len(goal.metrics) > 1:
        chosen = choose(first, goal, section.choose)
    elif section.winner != "best":
        good = {trial.number for trial in as_good_as(chosen, others, goal.metric)}
        chosen = cheapest(t for t in trials if t.number == first[0].number or t.number in good)
    return next(trial for trial in trials if trial.number == chosen.number)


def decided_by(again: Sequence[Trial]) -> list[Trial]:
    """Return the finalists that are complete on the fresh seeds; none while one of them is being trained."""
    return [] if any(trial.state == "running" for trial in again) else [t for t in again if t.state == "complete"]


def choose(members: Sequence[Trial], goal: Goal, choice: Choice) -> Trial:
    """Return the trial of a front, of at least one, that a choice takes; ties go to the earlier trial.

    - `knee`: the least sum of the losses, scaled from the best to the worst of the front: with two metrics the trial
      farthest from the straight line between the front's ends (Das 1999, "On characterizing the 'knee' of the Pareto
      curve based on normal-boundary intersection").
    - `first_within_limits`: the best of the leading metric.
    - weights by metric: the least sum of the scaled losses by these weights; a metric without one has none.
    - `{best: a, within: {b: share}}`: the best of `a` among those whose `b` is worse than the front's best by at most
      this share of its size; where the shares leave none, those that are beyond them by the least.
    """
    members = sorted(members, key=lambda trial: trial.number)
    return members[chosen_row(np.array([trial.losses for trial in members]), list(goal.metrics), choice)]


def chosen_row(losses: Array, names: Sequence[str], choice: Choice) -> int:
    """Return the row of the member of a front that a choice takes, of losses (members, metrics); see `choose`."""
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
    return int(keys.argmin())


def chosen_first(leaders: Sequence[Trial], members: Sequence[Trial], goal: Goal, choice: Choice) -> list[Trial]:
    """Return the leaders of a search, with several metrics the chosen one of its front before them."""
    if len(goal.metrics) == 1 or not members:
        return list(leaders)
    chosen = choose(members, goal, choice)
    return [chosen, *(trial for trial in leaders if trial.number != chosen.number)]


def _beyond(losses: Array, names: Sequence[str], shares: Mapping[str, Any]) -> Array:
    """Return how far each trial is beyond the shares, 0 within: the sum over the metrics, as shares of their best."""
    beyond = np.zeros(len(losses))
    for name, share in shares.items():
        column = losses[:, names.index(name)]
        best = column.min()
        beyond += np.maximum(0.0, (column - best) / (abs(best) or 1.0) - share_of(share))
    return beyond


def why(choice: Choice) -> str:
    """Return a choice in words, after `chosen as`."""
    if choice == "knee":
        return "the knee of the front"
    if choice == "first_within_limits":
        return "the best of the leading metric within the limits"
    assert isinstance(choice, Mapping)
    if "within" in choice:
        shares = " and ".join(
            f"{100 * share_of(share):.3g} % of the best {name}" for name, share in choice["within"].items()
        )
        return f"the best {choice['best']} within {shares}, or the nearest to that"
    return "the best by weights " + ", ".join(f"{name} {choice[name]:g}" for name in metrics_of(choice))


def why_none(history: History, goal: Goal) -> str:
    """Return why a search has no winner."""
    nearest = history.best()
    if nearest is None:
        errors = [trial.error for trial in history if trial.error]
        if errors and len(errors) == len(history):
            return f"every trial failed, the first with: {errors[0]}"
        return f"no trial is complete{f'; the first failed with: {errors[0]}' if errors else ''}"
    if nearest.scale < goal.target:
        return (
            f"no trial is complete at the target, scale {goal.target}; the best of scale {nearest.scale} is trial "
            f"{nearest.number}: {values_in_words(nearest, goal, history)}"
        )
    limits = ", ".join(map(str, goal.limits))
    if history.front:
        return f"no finalist keeps the limits ({limits}) on fresh seeds"
    values = values_in_words(nearest, goal, history)
    return f"no trial keeps the limits ({limits}); the nearest is trial {nearest.number}: {values}"


def standard_error(trial: Trial, metric: str) -> float | None:
    """Return the standard error of a trial's score over its folds and seeds; None where it has a single one."""
    values = trial.values(metric)
    return statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None


def as_good_as(best: Trial, trials: Iterable[Trial], metric: str) -> list[Trial]:
    """Return the complete trials, trained as far, within one standard error of the best; without it itself."""
    error = standard_error(best, metric)
    if error is None:
        return []
    complete = [t for t in trials if t.keeps_limits and t.number != best.number and t.rank[:2] == best.rank[:2]]
    return [trial for trial in complete if trial.loss - best.loss <= error]


def cheapest(trials: Iterable[Trial]) -> Trial:
    """Return the trial of the least cost; ties go to the better one.

    Source: Breiman, Friedman, Olshen & Stone 1984, "Classification and Regression Trees", section 3.4.3 (the 1 SE rule;
    there the smallest tree).
    """
    return min(trials, key=lambda trial: (_cost(trial), trial.loss, trial.number))


def _cost(trial: Trial) -> float:
    # Trained as far by steps, the last of which may be a part only: then a unit's cost compares.
    return trial.total_cost if trial.amount is None else trial.cost
