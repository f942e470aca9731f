"""A trial as messages for a tracker: what to `do`, one of the methods of `MlflowSink`, and what that needs."""

import math
import posixpath
import re
import statistics
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from hpo.config.goals import at_scale
from hpo.trials.goal import Goal
from hpo.trials.space.space import short_text
from hpo.trials.trial import State, TaskLayout, Trial

TrackerMessage = dict[str, Any]

_STATUS: Mapping[State, str] = {"complete": "FINISHED", "failed": "FAILED", "stopped": "KILLED"}
# Some stores cut longer names, others refuse them.
_MAX_RUN_NAME = 250
_MAX_NAME = 200  # of 250, since a fold's name precedes a metric's
# Metrics of a trial's run; what a study is for is called otherwise.
_OURS = frozenset({"score", "score_standard_deviation", "trial", "round", "seconds", "amount", "reached"})


def open_trial(trial: Trial, scales: Sequence[Mapping[str, Any]] | None = None) -> TrackerMessage:
    """Return the message that opens the child run of a trial; `scales` are those of its study."""
    return {
        "do": "open_trial",
        "number": trial.number,
        "name": run_name(trial),
        "params": parameters(trial, scales),
        "tags": {"hpo.round": str(trial.round), "hpo.point": trial.key, **_amount(trial)},
        "time": trial.started or time.time(),
    }


def parameters(trial: Trial, scales: Sequence[Mapping[str, Any]] | None) -> dict[str, Any]:
    """Return the values by key that a trial's run shows: those of its point, and what its scale changes."""
    return mlflow_names({**trial.point, **at_scale(trial.point, scales)})


class Curve:
    """The messages of a task's learning curve: each point at its epoch.

    MLflow's steps are whole: where the first epoch is a part of one, points are at their `step`, or else are counted.
    """

    def __init__(self, trial: Trial, task: str) -> None:
        self._trial, self._task = trial, task
        self._axis: str | None = None
        self._num_points = 0

    def point(self, point: Mapping[str, Any], when: float | None = None) -> TrackerMessage:
        """Return the message of the next point."""
        numbers = {
            key: value for key, value in point.items() if isinstance(value, int | float) and math.isfinite(value)
        }
        self._num_points += 1
        if self._axis is None:
            is_whole = float(numbers.get("epoch", 0.5)).is_integer()
            self._axis = "epoch" if is_whole else "step" if "step" in numbers else "number"
        step = math.ceil(numbers.get(self._axis, self._num_points))
        shown = {name: value for name, value in numbers.items() if name not in ("epoch", "step", "epochs")}
        metrics = {f"{self._task}/{mlflow_name(name)}": value for name, value in shown.items()}
        number = self._trial.number
        return {"do": "curve", "number": number, "step": step, "metrics": metrics, "time": when or time.time()}


def curves(trial: Trial, layout: TaskLayout) -> list[TrackerMessage]:
    """Return the messages of a trial's recorded learning curves, with times spread over its seconds."""
    points = []
    for index, outcome in sorted(trial.outcomes.items()):
        curve, each = Curve(trial, layout.name(index)), outcome.seconds / max(len(outcome.curve), 1)
        points += [curve.point(point, outcome.started + each * n) for n, point in enumerate(outcome.curve, start=1)]
    return points


def close_trial(trial: Trial, goal: Goal, layout: TaskLayout, costs: Sequence[float] | None = None) -> TrackerMessage:
    """Return the message that closes the child run; it has the trial's number as a metric, for the axis of charts.

    `costs` are those of a training at each scale, where a ladder goes by them; else cost is that of the study's clock.
    """
    metric = goal.metric
    metrics: dict[str, float] = {"trial": trial.number, "round": trial.round, "seconds": trial.seconds}
    if trial.scale:
        metrics["cost"] = costs[trial.scale - 1] if costs else trial.total_cost
    if trial.amount is not None:
        metrics["amount"] = trial.amount
        if trial.reached is not None:
            metrics["reached"] = trial.reached
    if trial.score is not None:
        metrics["score"] = trial.score
        if len(values := trial.values(metric)) > 1:
            metrics["score_standard_deviation"] = statistics.stdev(values)
    for index, outcome in sorted(trial.outcomes.items()):
        final = {f"{layout.name(index)}/final_{mlflow_name(name)}": each for name, each in outcome.metrics.items()}
        metrics |= final
        if outcome.num_parameters is not None:
            metrics["num_parameters"] = outcome.num_parameters
    metrics |= _means(trial, goal)
    is_judged = goal.limits and trial.state == "complete"
    limits = {"hpo.is_within_limits": str(trial.keeps_limits).lower()} if is_judged else {}
    error = {"hpo.error": trial.error} if trial.error else {}
    failed = [(layout.name(i), o.details or o.error) for i, o in sorted(trial.outcomes.items()) if o.error]
    return {
        "do": "close_trial",
        "number": trial.number,
        "scale": trial.scale,
        "status": _STATUS[trial.state],
        "metrics": {name: value for name, value in metrics.items() if math.isfinite(value)},
        "tags": {"hpo.metric": metric, "hpo.state": trial.state, **limits, **error, **_amount(trial)},
        "details": "\n".join(f"{task}:\n{details}" for task, details in failed),
        "time": trial.ended or time.time(),
    }


def show_front(members: Iterable[Trial]) -> TrackerMessage:
    """Return the message that says which trials are on the front, of all that are closed."""
    return {"do": "show_front", "numbers": [trial.number for trial in members]}


def train_further(before: Trial, trial: Trial, goal: Goal, layout: TaskLayout) -> TrackerMessage:
    """Return the message that adds to a closed child run what its trial was trained further, after the search."""
    points: list[TrackerMessage] = []
    for index, outcome in sorted(trial.outcomes.items()):
        points += curves(replace(trial, outcomes={index: outcome}), layout)[len(before.outcomes[index].curve) :]
    return close_trial(trial, goal, layout) | {"do": "train_further", "points": points}


def dropped_trials(trials: Sequence[Trial]) -> list[int]:
    """Return the numbers of complete trials that were not continued while others of their round were."""
    continued = {trial.continues for trial in trials if trial.continues is not None}
    judged = {trial.round for trial in trials if trial.number in continued}
    return [t.number for t in trials if t.state == "complete" and t.round in judged and t.number not in continued]


def run_name(trial: Trial) -> str:
    """Return a trial's number and short point, such as `0007 lr=3e-4 num_layers=2`."""
    return f"{trial.number:04d} {short_text(trial.point)}"[:_MAX_RUN_NAME]


def metric_names(goal: Goal) -> dict[str, str]:
    """Return by metric of the goal, the leading one first, what it is called in a trial's run.

    With one metric `score`; with several, or limits, each by its own name, after `metric.` where that is taken.
    """
    if goal.is_single:
        return {goal.metric: "score"}
    taken = _OURS - ({"score"} & {goal.metric})
    return {name: mlflow_name(f"metric.{name}" if name in taken else name) for name in goal.names}


def goal_values(trial: Trial, goal: Goal) -> dict[str, float]:
    """Return what a trial with a score came to in all that its study is for: means, the leading metric first."""
    assert trial.score is not None
    return {goal.metric: trial.score} | {name: trial.mean(name) for name in goal.names[1:]}


def mlflow_name(name: str) -> str:
    """Return the name with `_` for what MLflow refuses: odd characters, and paths that are not plain."""
    name = re.sub(r"[^\w\-. :/]", "_", name)[:_MAX_NAME]
    is_plain = posixpath.normpath(name) == name and not name.startswith((".", "/"))
    return name if is_plain else re.sub(r"[./]", "_", name)


def mlflow_names(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values with names that MLflow takes."""
    return {mlflow_name(key): value for key, value in values.items()}


def _means(trial: Trial, goal: Goal) -> dict[str, float]:
    """Return of a trial with a score all that its study is for: mean and standard deviation over its folds."""
    means: dict[str, float] = {}
    for name, shown in metric_names(goal).items():
        values = trial.values(name)
        if goal.is_single or trial.score is None or not values:
            continue
        means[shown] = trial.mean(name)
        if len(values) > 1:
            means[f"{shown}_standard_deviation"] = statistics.stdev(values)
    return means


def _amount(trial: Trial) -> dict[str, str]:
    return {} if trial.amount is None else {"hpo.amount": str(trial.amount)}
