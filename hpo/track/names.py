"""The names of hyperparameters and metrics in MLflow."""

import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hpo.config.goals import at_scale
from hpo.trials.goal import Goal
from hpo.trials.trial import Trial

# Longest name of a metric. Some stores cut names of more than 250 characters, others refuse them. The difference leaves
# room for the name of a fold before that of a metric.
_MAX_NAME = 200
# Names of our own metrics in a trial's run; a study's metrics need other names.
_OURS = frozenset(
    {"score", "score_standard_deviation", "trial", "round", "seconds", "amount", "reached", "cost", "num_parameters"}
)


def parameters(trial: Trial, scales: Sequence[Mapping[str, Any]] | None) -> dict[str, Any]:
    """Return the parameters of a trial's run by key: the trial's point, and the settings of the trial's scale."""
    return mlflow_names({**trial.point, **at_scale(trial.point, scales)})


def metric_names(goal: Goal) -> dict[str, str]:
    """Return a dict from each name in `Goal.names` to the name in MLflow; the leading metric comes first.

    If there is only one name, the name in MLflow is `score`. If there are several names, each name in `_OURS`, such as
    `seconds`, gets the prefix `metric.`. If the leading metric is named `score`, its name gets no prefix. At the end,
    all names are changed as by `mlflow_names`.
    """
    if len(goal.names) == 1:
        return {goal.metric: "score"}
    taken = _OURS - ({"score"} & {goal.metric})
    names = [f"metric.{name}" if mlflow_name(name) in taken else name for name in goal.names]
    return dict(zip(goal.names, _distinct(names), strict=True))


def mlflow_name(name: str) -> str:
    """Return the name in a form that MLflow accepts: `_` replaces every character that MLflow refuses.

    MLflow also refuses names that begin with a dot or a slash, and paths that are not normalized, such as `a/../b`. In
    these names, `_` replaces all dots and slashes. Each name is cut after 200 characters.
    """
    name = re.sub(r"[^\w\-. :/]", "_", name)[:_MAX_NAME]
    is_plain = posixpath.normpath(name) == name and not name.startswith((".", "/"))
    return name if is_plain else re.sub(r"[./]", "_", name)


def mlflow_names(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values by name, with each name changed by `mlflow_name`.

    If two names are equal after this change, `_` is appended to the second name.
    """
    return dict(zip(_distinct(values), values.values(), strict=True))


def _distinct(names: Iterable[str]) -> list[str]:
    found: list[str] = []
    for name in map(mlflow_name, names):
        free = name
        while free in found:
            free += "_"
        found.append(free)
    return found
