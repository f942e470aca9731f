"""Chooses the winner of a search; explains the choice, or why there is no winner."""

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
    """Return the winner among the finished trials of a search; while the search runs, the best trial so far.

    With one metric, `study.winner` decides: the winner is the best trial, or the cheapest trial within one standard
    error of the best trial. With several metrics, `study.choose` picks the winner from the Pareto front.

    Args:
        again: the finalists with their outcomes on fresh seeds; these outcomes decide once all finalists are trained.
        at_target: whether the winner must have the target scale.

    Returns:
        The winner. None if there is no candidate. A candidate is a complete trial that keeps the limits. With
        `at_target`, a candidate also has the target scale. Once outcomes on fresh seeds decide, a candidate is a
        finalist that keeps the limits on fresh seeds.
    """
    deciding = deciding_finalists(again) or trials
    members = front(deciding)
    if not members or (at_target and members[0].scale < goal.target):
        return None
    chosen = members[0]
    if len(goal.metrics) > 1:
        chosen = choose(members, goal, section.choose)
    elif section.winner != "best":
        equal = {trial.number for trial in as_good_as(chosen, deciding, goal.metric)}
        chosen = cheapest(t for t in trials if t.number == members[0].number or t.number in equal)
    return next(trial for trial in trials if trial.number == chosen.number)


def deciding_finalists(again: Sequence[Trial]) -> list[Trial]:
    """Return the finalists that are complete on fresh seeds; [] while a finalist is running."""
    return [] if any(trial.state == "running" for trial in again) else [t for t in again if t.state == "complete"]


def choose(members: Sequence[Trial], goal: Goal, choice: Choice) -> Trial:
    """Return the trial that `choice` picks from a nonempty Pareto front; in a tie, pick the earlier trial.

    - `knee`: the trial with the smallest sum of losses, each scaled from 0 (the front's best) to 1 (the front's worst).
      With two metrics this is the trial farthest from the straight line between the front's ends (Das 1999, "On
      characterizing the 'knee' of the Pareto curve based on normal-boundary intersection").
    - `first_within_limits`: the trial with the best value of the first metric. The limits need no check here,
      because all trials on the front keep the limits.
    - weights by metric: the trial with the smallest weighted sum of the scaled losses. A metric without a weight does
      not count.
    - `{best: a, within: {b: share}}`: the trial with the best `a` among the trials whose `b` is near the front's best
      `b`. With the share 0.05, `b` may be up to 5 % worse than the best `b`. If no trial is near enough in every
      metric in `within`, pick from the trials with the smallest excess. With the share 0.05, a trial whose `b` is 7 %
      worse has the excess 0.02. The excesses for several metrics are added up.
    """
    members = sorted(members, key=lambda trial: trial.number)
    return members[choose_row(np.array([trial.losses for trial in members]), list(goal.metrics), choice)]


def choose_row(losses: Array, names: Sequence[str], choice: Choice) -> int:
    """Return the index of the row that `choice` picks from a front's losses, shape (trials, metrics); see `choose`."""
    if choice == "first_within_limits":
        keys = losses[:, 0]
    elif choice == "knee":
        keys = scaled(losses, scale_of(losses)).sum(axis=1)
    elif isinstance(choice, Mapping) and "within" in choice:
        beyond, best = _excess(losses, names, choice["within"]), names.index(choice["best"])
        keys = np.where(beyond == beyond.min(), losses[:, best], np.inf)
    else:
        assert isinstance(choice, Mapping)
        weights = np.array([choice.get(name, 0.0) for name in names])
        keys = scaled(losses, scale_of(losses)) @ weights
    return int(keys.argmin())


def put_chosen_first(leaders: Sequence[Trial], members: Sequence[Trial], goal: Goal, choice: Choice) -> list[Trial]:
    """Return the best trials (`leaders`), in order.

    With several metrics, the trial that `choice` picks from the Pareto front (`members`) comes first.
    """
    if len(goal.metrics) == 1 or not members:
        return list(leaders)
    chosen = choose(members, goal, choice)
    return [chosen, *(trial for trial in leaders if trial.number != chosen.number)]


def _excess(losses: Array, names: Sequence[str], shares: Mapping[str, Any]) -> Array:
    """Return how far each trial is beyond the allowed distances from the front's best losses, summed over metrics.

    A distance is the trial's loss minus the best loss, divided by the absolute value of the best loss. If the best loss
    is 0, the distance is not divided. `shares` has the allowed distance for each metric in `within` (see `choose`).
    """
    beyond = np.zeros(len(losses))
    for name, share in shares.items():
        column = losses[:, names.index(name)]
        best = column.min()
        beyond += np.maximum(0.0, (column - best) / (abs(best) or 1.0) - share_of(share))
    return beyond


def why(choice: Choice) -> str:
    """Return a description of a choice that completes the sentence `chosen as ...`."""
    if choice == "knee":
        return "the knee of the front"
    if choice == "first_within_limits":
        return "the trial with the best value of the leading metric within the limits"
    assert isinstance(choice, Mapping)
    if "within" in choice:
        shares = " and ".join(
            f"{100 * share_of(share):.3g} % of the best {name}" for name, share in choice["within"].items()
        )
        return f"the best {choice['best']} within {shares}, or as near to this as possible"
    return "the best by weights " + ", ".join(f"{name} {choice[name]:g}" for name in metrics_of(choice))


def why_none(history: History, goal: Goal) -> str:
    """Return a text that says why a search has no winner."""
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
    """Return the standard error of a trial's mean score over its folds and seeds; None for a single score."""
    values = trial.values(metric)
    return statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None


def as_good_as(best: Trial, trials: Iterable[Trial], metric: str) -> list[Trial]:
    """Return the other trials within one standard error of `best`; [] if `best` has a single score.

    Consider only complete trials that keep the limits, and have the same scale and amount as `best`.
    """
    error = standard_error(best, metric)
    if error is None:
        return []
    complete = [t for t in trials if t.keeps_limits and t.number != best.number and t.rank[:2] == best.rank[:2]]
    return [trial for trial in complete if trial.loss - best.loss <= error]


def cheapest(trials: Iterable[Trial]) -> Trial:
    """Return the trial with the lowest cost; of several such trials, return the best.

    If a trial has an amount of training, compare the cost of one unit. Otherwise, compare the total cost.

    `choose_best` calls this with the trials within one standard error of the best trial. Source of this choice: the
    1 SE rule for the smallest tree, section 3.4.3 of Breiman, Friedman, Olshen & Stone 1984, "Classification and
    Regression Trees".
    """
    return min(trials, key=lambda trial: (compared_cost(trial), trial.loss, trial.number))


def compared_cost(trial: Trial) -> float:
    """Return the cost to compare: the cost of one unit if the trial has an amount, otherwise the total cost."""
    # The total cost depends on how the training of a point was divided into trials.
    return trial.total_cost if trial.amount is None else trial.cost
