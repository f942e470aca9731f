"""The projection of a study into a tracker's terms: plain messages, built from the record's values alone."""

import math
import re
import time
from collections.abc import Mapping
from typing import Any

from hpo.space import short_text
from hpo.trials import Outcome, State, TaskGrid, Trial

Message = dict[str, Any]

_STATUS: Mapping[State, str] = {"complete": "FINISHED", "failed": "FAILED", "stopped": "KILLED"}


def open_study(
    name: str, study_id: str, params: Mapping[str, Any], tags: Mapping[str, str], datasets: list[Message]
) -> Message:
    """Return the message that opens the parent run; the same study id always leads to the same run."""
    return {
        "do": "open_study",
        "name": name,
        "study_id": study_id,
        "params": dict(params),
        "tags": dict(tags),
        "datasets": datasets,
    }


def open_trial(trial: Trial) -> Message:
    """Return the message that opens the child run of a trial."""
    return {
        "do": "open_trial",
        "number": trial.number,
        "name": run_name(trial),
        "params": dict(trial.point),
        "tags": {"hpo.round": str(trial.round), "hpo.point": trial.key},
        "time": time.time(),
    }


def curve_point(trial: Trial, task: str, point: Mapping[str, Any]) -> Message:
    """Return the message of one point of a task's learning curve, at its epoch (or step)."""
    numbers = {name: value for name, value in point.items() if isinstance(value, int | float) and math.isfinite(value)}
    step = int(numbers.pop("epoch", numbers.pop("step", 0)))
    metrics = {f"{task}/{_metric_name(name)}": value for name, value in numbers.items() if name != "epochs"}
    return {"do": "curve", "number": trial.number, "step": step, "metrics": metrics, "time": time.time()}


def curves(trial: Trial, grid: TaskGrid) -> list[Message]:
    """Return the messages of all learning curves of a trial, as the record holds them."""
    return [
        curve_point(trial, grid.name(index), point)
        for index, outcome in sorted(trial.outcomes.items())
        for point in outcome.curve
    ]


def close_trial(trial: Trial, metric: str, grid: TaskGrid) -> Message:
    """Return the message that closes the child run, with the trial's number as a metric to draw charts against."""
    metrics: dict[str, float] = {"trial": trial.number, "round": trial.round, "seconds": trial.seconds}
    if trial.score is not None:
        metrics["score"] = trial.score
    for index, outcome in sorted(trial.outcomes.items()):
        others = {name: value for name, value in outcome.metrics.items() if name != "num_parameters"}
        metrics |= {f"{grid.name(index)}/final_{_metric_name(name)}": value for name, value in others.items()}
        if "num_parameters" in outcome.metrics:
            metrics["num_parameters"] = outcome.metrics["num_parameters"]
    return {
        "do": "close_trial",
        "number": trial.number,
        "status": _STATUS[trial.state],
        "metrics": {name: value for name, value in metrics.items() if math.isfinite(value)},
        "tags": {"hpo.metric": metric} | ({"hpo.error": trial.error} if trial.error else {}),
        "details": _details(trial.outcomes, grid),
        "time": time.time(),
    }


def close_study(status: str, metrics: Mapping[str, float], note: str, artifacts: list[str]) -> Message:
    """Return the message that closes the parent run.

    Args:
        status: MLflow's run status, such as FINISHED, KILLED or FAILED.
        metrics: figures of the whole study.
        note: Markdown shown at the top of the run's page.
        artifacts: files to attach.
    """
    return {"do": "close_study", "status": status, "metrics": dict(metrics), "note": note, "artifacts": artifacts}


def _metric_name(name: str) -> str:
    """Return the name with `_` for what MLflow does not take in one."""
    return re.sub(r"[^\w\-. :/]", "_", name)


def run_name(trial: Trial) -> str:
    """Return the number and the point in short, such as `0007 lr=0.0003 num_layers=2`."""
    return f"{trial.number:04d} {short_text(trial.point)}"


def _details(outcomes: Mapping[int, Outcome], grid: TaskGrid) -> str:
    return "\n".join(f"{grid.name(i)}:\n{o.details or o.error}" for i, o in sorted(outcomes.items()) if o.error)
