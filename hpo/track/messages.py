"""A study as messages for a tracker: plain data, built only from the record's values."""

import math
import posixpath
import re
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hpo.engine.space.space import short_text
from hpo.engine.trials.trial import Direction, Outcome, State, TaskLayout, Trial

TrackerMessage = dict[str, Any]

_STATUS: Mapping[State, str] = {"complete": "FINISHED", "failed": "FAILED", "stopped": "KILLED"}
# Some stores cut longer names, others refuse them.
_MAX_RUN_NAME = 250
_MAX_NAME = 200  # of 250, since a fold's name precedes a metric's

# Placeholders in a note for what only the tracker knows; they are replaced when the note is stored.
RUN_ID, TABLE = "@@run@@", "@@table@@"


def trial_page(number: int) -> str:
    """Return the placeholder for the address of a trial's page."""
    return f"@@trial {number}@@"


def fill_in(note: str, run_id: str, table: str, page: Mapping[int, str]) -> str:
    """Return the note with its placeholders replaced; trials without a page get an empty link."""
    note = note.replace(RUN_ID, run_id).replace(TABLE, table)
    return re.sub(r"@@trial (\d+)@@", lambda match: page.get(int(match[1]), "#"), note)


@dataclass(frozen=True)
class Shown:
    """What a tracker shows of a study besides its trials.

    Attributes:
        note: Markdown for the study's page, with placeholders.
        columns: the space's keys, as columns of the table of trials.
        curves: the learning curves with charts, as `fold_0/accuracy`.
        direction: maximize or minimize: which score is at the top of that table.
    """

    note: str
    columns: Sequence[str]
    curves: Sequence[str]
    direction: Direction


def open_study(
    name: str,
    study_id: str,
    params: Mapping[str, Any],
    tags: Mapping[str, str],
    datasets: Sequence[TrackerMessage],
    shown: Shown,
    when: float,
) -> TrackerMessage:
    """Return the message that opens the parent run; the same study id always leads to the same run.

    `params` is the flat configuration. `datasets` has one entry per part of the data: `name`, `digest`, `source`,
    `context`, `profile`. `when` is the study's start, in seconds since the epoch.
    """
    return {
        "do": "open_study",
        "name": name,
        "study_id": study_id,
        "params": {name_taken(key): value for key, value in params.items()},
        "tags": dict(tags),
        "datasets": list(datasets),
        "note": shown.note,
        "columns": [name_taken(key) for key in shown.columns],
        "curves": [name_taken(key) for key in shown.curves],
        "direction": shown.direction,
        "time": when,
    }


def open_trial(trial: Trial) -> TrackerMessage:
    """Return the message that opens the child run of a trial."""
    amount = {} if trial.amount is None else {"hpo.amount": str(trial.amount)}
    return {
        "do": "open_trial",
        "number": trial.number,
        "name": run_name(trial),
        "params": {name_taken(key): value for key, value in trial.point.items()},
        "tags": {"hpo.round": str(trial.round), "hpo.point": trial.key, **amount},
        "time": trial.started or time.time(),
    }


def curve_point(trial: Trial, task: str, point: Mapping[str, Any], when: float | None = None) -> TrackerMessage:
    """Return the message of one point of a task's learning curve, at its epoch (or step)."""
    numbers = {name: value for name, value in point.items() if isinstance(value, int | float) and math.isfinite(value)}
    step = int(numbers.pop("epoch", numbers.pop("step", 0)))
    metrics = {f"{task}/{name_taken(name)}": value for name, value in numbers.items() if name != "epochs"}
    return {"do": "curve", "number": trial.number, "step": step, "metrics": metrics, "time": when or time.time()}


def curves(trial: Trial, layout: TaskLayout) -> list[TrackerMessage]:
    """Return the messages of a trial's recorded learning curves, with times spread over its seconds."""
    return [
        curve_point(
            trial, layout.name(index), point, outcome.started + outcome.seconds * place / max(len(outcome.curve), 1)
        )
        for index, outcome in sorted(trial.outcomes.items())
        for place, point in enumerate(outcome.curve, start=1)
    ]


def close_trial(trial: Trial, metric: str, layout: TaskLayout) -> TrackerMessage:
    """Return the message that closes the child run; it has the trial's number as a metric, for the axis of charts."""
    metrics: dict[str, float] = {"trial": trial.number, "round": trial.round, "seconds": trial.seconds}
    if trial.score is not None:
        metrics["score"] = trial.score
        values = [o.metrics[metric] for o in trial.outcomes.values() if metric in o.metrics]
        if len(values) > 1:
            metrics["score_standard_deviation"] = statistics.stdev(values)
    for index, outcome in sorted(trial.outcomes.items()):
        others = {name: value for name, value in outcome.metrics.items() if name != "num_parameters"}
        metrics |= {f"{layout.name(index)}/final_{name_taken(name)}": value for name, value in others.items()}
        if "num_parameters" in outcome.metrics:
            metrics["num_parameters"] = outcome.metrics["num_parameters"]
    return {
        "do": "close_trial",
        "number": trial.number,
        "status": _STATUS[trial.state],
        "metrics": {name: value for name, value in metrics.items() if math.isfinite(value)},
        "tags": {"hpo.metric": metric, "hpo.state": trial.state}
        | ({"hpo.error": trial.error} if trial.error else {})
        | ({} if trial.amount is None else {"hpo.amount": str(trial.amount)}),
        "details": _details(trial.outcomes, layout),
        "time": trial.ended or time.time(),
    }


def train_further(before: Trial, trial: Trial, metric: str, layout: TaskLayout) -> TrackerMessage:
    """Return the message that adds to a closed child run what its trial was trained further, after the search."""
    points: list[TrackerMessage] = []
    for index, outcome in sorted(trial.outcomes.items()):
        points += curves(replace(trial, outcomes={index: outcome}), layout)[len(before.outcomes[index].curve) :]
    return close_trial(trial, metric, layout) | {"do": "train_further", "points": points}


def stop_trials(numbers: Sequence[int]) -> TrackerMessage:
    """Return the message that shows finished trials as stopped early, since others of their rung were continued."""
    return {"do": "stop_trials", "numbers": list(numbers)}


def dropped(trials: Sequence[Trial]) -> list[int]:
    """Return the numbers of complete trials that were not continued while others of their round were."""
    continued = {trial.continues for trial in trials if trial.continues is not None}
    judged = {trial.round for trial in trials if trial.number in continued}
    return [t.number for t in trials if t.state == "complete" and t.round in judged and t.number not in continued]


@dataclass(frozen=True)
class Model:
    """A trained model, and what its use needs.

    Attributes:
        trial, point: of the trial that it belongs to.
        description: its score and point, as text.
        checkpoint_dir: its folder on this machine.
        objective: whose `predict` reads it.
        prediction: the inputs; see `describe_prediction` of `hpo.engine.training.objective.objective.Objective`.
        packages: requirements in pip's format.
    """

    trial: int
    point: Mapping[str, Any]
    description: str
    checkpoint_dir: str
    objective: str
    prediction: Mapping[str, Any]
    packages: Sequence[str]


def register_model(name: str, model: Model) -> TrackerMessage:
    """Return the message that registers the winner's model and makes it the champion of its name."""
    return {"do": "register_model", "name": name_taken(name), **vars(model)}


def tag_study(tags: Mapping[str, str]) -> TrackerMessage:
    """Return the message that tags the parent run."""
    return {"do": "tag_study", "tags": dict(tags)}


@dataclass(frozen=True)
class Ending:
    """The end of a study, or its current state.

    Attributes:
        status: MLflow's run status, such as FINISHED, KILLED or FAILED.
        when: in seconds since the epoch.
        metrics: figures of the whole study.
        note: Markdown for the study's page, with placeholders; None keeps the old one.
        artifacts: files to attach.
        best: the best score so far: after which number of trials, the score, and when.
        error: why the study failed: its last line becomes a tag, all of it a file.
    """

    status: str
    when: float
    metrics: Mapping[str, float] = field(default_factory=dict)
    note: str | None = None
    artifacts: Sequence[str] = ()
    best: Sequence[tuple[int, float, float]] = ()
    error: str | None = None


def close_study(ending: Ending) -> TrackerMessage:
    """Return the message that closes the parent run."""
    return {"do": "close_study", **vars(ending)}


def run_name(trial: Trial) -> str:
    """Return a trial's number and short point, such as `0007 lr=3e-4 num_layers=2`."""
    return f"{trial.number:04d} {short_text(trial.point)}"[:_MAX_RUN_NAME]


def name_taken(name: str) -> str:
    """Return the name with `_` for what MLflow refuses: odd characters, and paths that are not plain."""
    name = re.sub(r"[^\w\-. :/]", "_", name)[:_MAX_NAME]
    is_plain = posixpath.normpath(name) == name and not name.startswith((".", "/"))
    return name if is_plain else re.sub(r"[./]", "_", name)


def _details(outcomes: Mapping[int, Outcome], layout: TaskLayout) -> str:
    return "\n".join(f"{layout.name(i)}:\n{o.details or o.error}" for i, o in sorted(outcomes.items()) if o.error)
