"""One trial of a study: its configuration, what became of each of its trainings, their curves, logs and seeds."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hpo.study.files.running import RunningTask
from hpo.study.study import is_outside
from hpo.study.view.logs import read_log
from hpo.study.view.making import trial_view
from hpo.study.view.read_only import ReadOnlyStudy
from hpo.study.view.reader import Look, StudyReader
from hpo.trials.record.host import Site
from hpo.trials.record.record import Asked
from hpo.trials.trial import Outcome, Trial, training_seed

# Of a log, and of its end, in which these are looked for.
_LINES, _END_BYTES = 5, 100_000


def show_trial(view: StudyReader, number: int) -> dict[str, Any]:
    """Return all of a trial, JSON-able; its fields are in docs/reference/json.md. Nothing is created or changed.

    HpoError where the study cannot be read, or has no such trial.
    """
    look, folder = view.look(), view.folder
    seen = view.study()
    trial = seen.trial(number, view.reference)
    shown = trial_view(seen, look.status, trial)
    holder, is_mirror = look.status.holder, "://" in view.reference
    is_trained = look.status.state == "running" or is_outside(seen.config)
    is_complete = trial.state == "complete"
    return {
        "study": look.status.name if is_mirror else folder.path.name,
        "folder": None if is_mirror else folder.path,
        "copied": look.copied or None,
        "trial": number,
        # Of one that nobody trains the record says only that it has not ended.
        "state": "interrupted" if trial.state == "running" and not is_trained else trial.state,
        "metric": seen.goal.metric,
        "score": shown.score,
        "scores": shown.scores,
        "search_scores": shown.search_scores,
        "texts": shown.texts,
        "search_texts": shown.search_texts,
        "excess": trial.excess if is_complete and seen.goal.limits else None,
        "point": shown.point,
        "default": shown.default,
        "config": seen.config.trial_config(trial.point),
        "amount": trial.amount,
        "reached": trial.reached,
        "continues": trial.continues,
        "error": trial.error,
        "stopped": trial.stopped,
        "seconds": trial.seconds,
        "started": trial.started,
        "ended": trial.ended,
        "num_parameters": trial.num_parameters,
        "host": holder.host if holder and trial.state == "running" else None,
        "tasks": [*_tasks(seen, look, trial)],
    }


def _tasks(seen: ReadOnlyStudy, look: Look, trial: Trial) -> Iterator[dict[str, Any]]:
    layout, metric = seen.layout, seen.goal.metric
    asked = seen.record.asked.get(trial.number) if trial.state == "running" else None
    running = {0: _asked_task(trial.number, asked, metric)} if asked else {}
    running |= {task.task: task for task in look.tasks if task.trial == trial.number}
    for index in range(layout.size):
        outcome, task, name = trial.outcomes.get(index), running.get(index), layout.name(index)
        seed = training_seed(seen.config.study.seed, trial.key, layout.fold(index), layout.repeat(index))
        path = seen.folder.log_path(trial.number, name)
        yield {
            "task": name,
            "seed": seed,
            **(_ended(outcome, metric, seen.record.sites.get((trial.number, index))) if outcome else _unfinished(task)),
            "log": path if path.is_file() else None,
            "printed_last": read_log(path, _END_BYTES).splitlines()[-_LINES:] if path.is_file() else [],
        }


def _ended(outcome: Outcome, metric: str, site: Site | None = None) -> dict[str, Any]:
    state = "failed" if outcome.error else "stopped" if outcome.stopped else "complete"
    # One that was trained further after the search has gone on in another process.
    is_its = site is not None and outcome.worker in (0, site.process)
    return {
        "state": state,
        "score": outcome.metrics.get(metric),
        "metrics": dict(outcome.metrics),
        "curve": _curve(outcome.curve, metric),
        "point": dict(outcome.curve[-1]) if outcome.curve else {},
        "seconds": outcome.seconds,
        "started": outcome.started or None,
        "host": site.host if site and is_its else None,
        "process": outcome.worker or (site.process if site else None),
        "gpus": [*site.gpus] if site and is_its else [],
        "attempt": outcome.attempt,
        "error": outcome.error,
        "details": outcome.details,
        "stopped": outcome.stopped,
    }


def _curve(points: Sequence[Mapping[str, float]], metric: str) -> list[tuple[float, float]]:
    """Return step and value of the metric; a point without a step has its place."""
    return [
        (point.get("epoch", point.get("step", place)), point[metric])
        for place, point in enumerate(points, 1)
        if metric in point
    ]


def _asked_task(trial: int, asked: Asked, metric: str) -> RunningTask:
    """Return the one training, elsewhere, of a trial that was asked for and not told."""
    point, curve = dict(asked.curve[-1]) if asked.curve else {}, _curve(asked.curve, metric)
    return RunningTask(trial=trial, task=0, worker=asked.place - 1, started=asked.time, point=point, curve=curve)


def _unfinished(task: RunningTask | None) -> dict[str, Any]:
    """Return the same of a training that has not ended, as far as it is known."""
    nothing: Mapping[str, Any] = dict.fromkeys(_ended(Outcome(), ""))
    if task is None:
        return {**nothing, "state": "not trained", "metrics": {}, "curve": [], "point": {}, "gpus": []}
    return {
        **nothing,
        "state": "running",
        "metrics": {},
        "curve": task.curve,
        "point": task.point,
        "started": task.started,
        "host": task.host,
        "process": task.process,
        "gpus": task.gpus,
    }
