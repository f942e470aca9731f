"""Says in words why a trial was chosen, or why none was."""

from collections.abc import Mapping

from hpo.config.goals import Choice, metrics_of, share_of
from hpo.trials.goal import Goal
from hpo.trials.history import History
from hpo.trials.score_format import values_in_words


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


def why_none(history: History, goal: Goal) -> str | None:
    """Return why there is no winner among complete trials; None where no trial is complete."""
    nearest = history.best()
    if nearest is None:
        return None
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
