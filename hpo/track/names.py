"""What things are called in MLflow: hyperparameters and metrics."""

import posixpath
import re
from collections.abc import Mapping, Sequence
from typing import Any

from hpo.config.goals import at_scale
from hpo.trials.goal import Goal
from hpo.trials.trial import Trial

# Some stores cut longer names, others refuse them.
_MAX_NAME = 200  # of 250, since a fold's name precedes a metric's
# Metrics of a trial's run; what a study is for is called otherwise.
_OURS = frozenset({"score", "score_standard_deviation", "trial", "round", "seconds", "amount", "reached"})


def parameters(trial: Trial, scales: Sequence[Mapping[str, Any]] | None) -> dict[str, Any]:
    """Return the values by key that a trial's run shows: those of its point, and what its scale changes."""
    return mlflow_names({**trial.point, **at_scale(trial.point, scales)})


def metric_names(goal: Goal) -> dict[str, str]:
    """Return by metric of the goal, the leading one first, what it is called in a trial's run.

    With one metric alone `score`; with several names each has its own, after `metric.` where that is taken.
    """
    if len(goal.names) == 1:
        return {goal.metric: "score"}
    taken = _OURS - ({"score"} & {goal.metric})
    return {name: mlflow_name(f"metric.{name}" if name in taken else name) for name in goal.names}


def mlflow_name(name: str) -> str:
    """Return the name with `_` for what MLflow refuses: odd characters, and paths that are not plain."""
    name = re.sub(r"[^\w\-. :/]", "_", name)[:_MAX_NAME]
    is_plain = posixpath.normpath(name) == name and not name.startswith((".", "/"))
    return name if is_plain else re.sub(r"[./]", "_", name)


def mlflow_names(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values with names that MLflow takes."""
    return {mlflow_name(key): value for key, value in values.items()}
