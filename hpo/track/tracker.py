"""The driver's side of the MLflow process: converts events to calls of `MlflowSink`, and never waits for MLflow."""

import contextlib
import json
import math
import queue
import statistics
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from hpo.config.sections import TrackSection
from hpo.engine.observers import Observer
from hpo.engine.schedule.rules import is_counted
from hpo.study.study import PreparedStudy, counts_of
from hpo.track.names import metric_names, mlflow_names, parameters
from hpo.track.store import mlflow_environment
from hpo.trials.places import place_of
from hpo.trials.ranking import front
from hpo.trials.record.user_actions import Raise, UserAction
from hpo.trials.trial import State, Trial
from hpo.workers.dispatch.dispatcher import TaskReport
from hpo.workers.objective.path import path_variable, python
from hpo.workers.training.own_lines import run_name
from hpo.workers.training.tasks import checkpoint_name

if TYPE_CHECKING:
    from hpo.track.sink import Call, MlflowSink, Point

# Pause after a failed request to MLflow; at most a tenth of `track.patience`.
_RETRY_SECONDS = 5.0
_STATUS: Mapping[State, str] = {"complete": "FINISHED", "failed": "FAILED", "stopped": "KILLED"}


class MlflowProcess:
    """Sends calls through a queue and a pipe to `hpo.track.process`, and reads nothing back."""

    def __init__(self, uri: str, track: TrackSection, lock_path: Path) -> None:
        self._patience = track.patience
        self._process = subprocess.Popen(
            python("hpo.track.process"),
            stdin=subprocess.PIPE,
            text=True,
            env=mlflow_environment() | path_variable(str(Path.cwd())),
            # Start a new session, so that Ctrl-C reaches only the driver. It ends this process by closing its input.
            start_new_session=True,
        )
        # The queue is unbounded, because a full pipe must not delay the search; calls are small.
        self._queue: queue.SimpleQueue[Call | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._write_lines, daemon=True)
        self._thread.start()
        begin = {"uri": uri, "experiment": track.experiment, "artifact_root": str(Path("mlartifacts").absolute())}
        retry_seconds = min(_RETRY_SECONDS, track.patience / 10)
        self.send(("begin", {**begin, "lock_path": str(lock_path), "retry_seconds": retry_seconds}))

    def send(self, call: "Call") -> None:
        """Queue the call."""
        self._queue.put(call)

    def close(self, patience: float | None = None) -> bool:
        """Send all remaining calls; return whether MLflow received them.

        Give up after `patience` seconds without progress (default: `track.patience`).
        """
        self.send(("end", {"patience_seconds": self._patience if patience is None else patience}))
        self._queue.put(None)
        self._thread.join()
        return self._process.wait() == 0

    def _write_lines(self) -> None:
        assert self._process.stdin is not None
        # Ignore a process that has ended: close() reports it, and the record has all data.
        with contextlib.suppress(BrokenPipeError), self._process.stdin as pipe:
            while (call := self._queue.get()) is not None:
                pipe.write(json.dumps(call) + "\n")
                if self._queue.empty():
                    pipe.flush()


class _Calls:
    """A proxy; it sends each method call to the `MlflowSink` that runs in another process."""

    def __init__(self, send: "Callable[[Call], None]") -> None:
        self._send = send

    def __getattr__(self, method: str) -> Callable[..., None]:
        return lambda **arguments: self._send((method, arguments))


class MlflowTracker(Observer):
    """Shows the trials of a study in MLflow. The attribute `mlflow` accepts the same calls as `MlflowSink`."""

    def __init__(self, study: PreparedStudy, process: MlflowProcess) -> None:
        config = study.config
        self._goal, self._layout, self._process = study.goal, study.layout, process
        self._files_dir = study.folder.files_dir.absolute() if config.track.artifacts else None
        # A worker creates the trial's run only if the trial has one task; else each task has a run below the trial's.
        self._has_workers_run = study.own_lines is not None and self._layout.size == 1
        # The cast lets the type checker compare every call with the method in the process.
        self.mlflow = cast("MlflowSink", _Calls(process.send))
        self._scales, self._costs = config.study.scales, config.strategy.get("costs")
        self._counts, self._budget, self._num_done = counts_of(config), config.study.trials, 0
        self._front: Sequence[Trial] = ()
        # The rank of the best trial so far within the limits: minus its scale, then its loss.
        self._best = (math.inf, math.inf)
        # The curves of running trials, by trial number and task.
        self._curves: dict[int, dict[str, Curve]] = {}

    def trial_opened(self, trial: Trial) -> None:
        """Open the trial's child run."""
        self._open(trial, self._has_workers_run)

    def _open(self, trial: Trial, has_own_lines: bool = False) -> None:
        self.mlflow.open_trial(
            number=trial.number,
            name=run_name(trial),
            params=parameters(trial, self._scales),
            tags={"hpo.round": str(trial.round), "hpo.point": trial.key, **_amount(trial)},
            time=trial.started or time.time(),
            has_own_lines=has_own_lines,
        )

    def reported(self, trial: Trial, report: TaskReport) -> None:
        """Send a point of a learning curve, or the id of the run that a worker opened."""
        own = report.task.payload.own_lines
        if report.mlflow_run is not None and own is not None:
            self.mlflow.adopt_run(number=trial.number, task=own["task"], run_id=report.mlflow_run)
        if report.point is not None:
            name = self._layout.name(report.task.index)
            curve = self._curves.setdefault(trial.number, {}).setdefault(name, Curve(name))
            self.mlflow.curve(number=trial.number, **curve.point(report.point))

    def trial_finished(self, trial: Trial) -> None:
        """Close the trial's child run, and mark the front if there are several metrics."""
        self.trial_known(trial)
        if len(self._goal.metrics) > 1:
            # The previous front is enough, because a trial that it dominates stays dominated.
            self.show_front(front([*self._front, trial]))

    def trial_known(self, trial: Trial) -> None:
        """Close the trial's child run without marking the front; `show_front` marks the front."""
        self._curves.pop(trial.number, None)
        self._num_done += is_counted(trial, self._counts)
        place = (-trial.scale, trial.loss) if trial.keeps_limits else (math.inf, math.inf)
        is_best, self._best = place < self._best, min(place, self._best)
        metrics = self._metrics(trial)
        # MLflow's page shows metrics in the order of their first points.
        best = {"best_score": metrics["score"]} if is_best else {}
        failed = [(self._layout.name(i), o.details or o.error) for i, o in sorted(trial.outcomes.items()) if o.error]
        self.mlflow.close_trial(
            number=trial.number,
            status=_STATUS[trial.state],
            metrics=metrics,
            of_study=best | self._of_study(metrics),
            done=f"{self._num_done} of {self._budget}",
            tags=self._tags(trial),
            details="\n".join(f"{task}:\n{details}" for task, details in failed),
            files=self._files(trial),
            time=trial.ended or time.time(),
        )

    def trial_recorded(self, trial: Trial) -> None:
        """Send a recorded trial and its learning curves to MLflow. Call `show_front` afterwards to mark the front."""
        self._open(trial)
        for point in self._points(trial):
            self.mlflow.curve(number=trial.number, **point)
        self.trial_known(trial)

    def trained_further(self, before: Trial, trial: Trial) -> None:
        """Add the results of a further training to the MLflow run of a trial.

        The further training continued the trial after the search. `before` is the trial before the further training,
        and `trial` is the trial after it.
        """
        points: list[Point] = []
        for index, outcome in sorted(trial.outcomes.items()):
            points += self._points(replace(trial, outcomes={index: outcome}))[len(before.outcomes[index].curve) :]
        metrics = self._metrics(trial)
        self.mlflow.train_further(
            number=trial.number,
            points=points,
            metrics=metrics,
            of_study=self._of_study(metrics),
            tags=self._tags(trial),
            time=trial.ended or time.time(),
        )

    def user_acted(self, action: UserAction) -> None:
        """Use the new budget if the user raised the budget of trials."""
        if isinstance(action.request, Raise) and action.request.trials is not None:
            self._budget = action.request.trials

    def show_front(self, members: Sequence[Trial]) -> None:
        """Mark the trials on the front, if there are several metrics."""
        if len(self._goal.metrics) > 1:
            self._front = members
            self.mlflow.show_front(numbers=[trial.number for trial in members])

    def close(self, patience: float | None = None) -> bool:
        """Send all remaining calls; return whether MLflow received them.

        Give up after `patience` seconds without progress (default: `track.patience`).
        """
        return self._process.close(patience)

    def _points(self, trial: Trial) -> "list[Point]":
        """Return the points of a trial's recorded curves; a task's points are spread evenly over the task's time."""
        points = []
        for index, outcome in sorted(trial.outcomes.items()):
            curve, each = Curve(self._layout.name(index)), outcome.seconds / max(len(outcome.curve), 1)
            points += [curve.point(point, outcome.started + each * n) for n, point in enumerate(outcome.curve, start=1)]
        return points

    def _metrics(self, trial: Trial) -> dict[str, float]:
        """Return the metrics of a trial's MLflow run.

        Only a trial with a scale has the metric `cost`. It is the scale's cost in `strategy.costs`; without
        `strategy.costs`, it is the trial's total cost on the clock.
        """
        metrics: dict[str, float] = {"trial": trial.number, "round": trial.round, "seconds": trial.seconds}
        if trial.scale:
            metrics["cost"] = self._costs[trial.scale - 1] if self._costs else trial.total_cost
        if trial.amount is not None:
            metrics["amount"] = trial.amount
            if trial.reached is not None:
                metrics["reached"] = trial.reached
        if trial.score is not None:
            metrics["score"] = trial.score
            metrics |= _spread("score", trial.values(self._goal.metric))
        for index, outcome in sorted(trial.outcomes.items()):
            fold = self._layout.name(index)
            numbers = {name: each for name, each in outcome.notes.items() if not isinstance(each, str)}
            numbers |= outcome.metrics
            metrics |= {f"{fold}/final_{name}": each for name, each in mlflow_names(numbers).items()}
            if outcome.num_parameters is not None:
                metrics["num_parameters"] = outcome.num_parameters
        if trial.score is not None and len(self._goal.names) > 1:
            for name, shown in metric_names(self._goal).items():
                if values := trial.values(name):
                    metrics |= {shown: trial.mean(name), **_spread(shown, values)}
        return {name: value for name, value in metrics.items() if math.isfinite(value)}

    def _files(self, trial: Trial) -> str | None:
        """Return the folder with the files that a trial's trainings wrote.

        Return None if the trainings wrote no files, or if `track.artifacts` is false.
        """
        folder = None if self._files_dir is None else self._files_dir / checkpoint_name(trial.number)
        return str(folder) if folder is not None and folder.is_dir() else None

    def _of_study(self, metrics: Mapping[str, float]) -> dict[str, float]:
        """Return a trial's goal metrics for the charts of the study's MLflow run; each NAME becomes `trial_NAME`."""
        names = ("score", *[*metric_names(self._goal).values()][1:]) if "score" in metrics else ()
        return {f"trial_{name}": metrics[name] for name in names if name in metrics}

    def _tags(self, trial: Trial) -> dict[str, str]:
        is_judged = self._goal.limits and trial.state == "complete"
        limits = {"hpo.is_within_limits": str(trial.keeps_limits).lower()} if is_judged else {}
        error = {"hpo.error": trial.error} if trial.error else {}
        texts = {name: each for name, each in trial.belonging("notes").items() if isinstance(each, str)}
        notes = {f"note.{name}": each for name, each in mlflow_names(texts).items()}
        return {"hpo.metric": self._goal.metric, "hpo.state": trial.state, **limits, **error, **notes, **_amount(trial)}


class Curve:
    """The learning curve of a task in MLflow, which accepts only integer steps.

    If the first point of the curve has an integer `epoch`, each point's `epoch` is its step in MLflow. Otherwise, if
    the first point has a `step`, each point's `step` is its step in MLflow. Fractions are rounded up. A point without
    this value gets its position in the curve, from 1. A second attempt repeats the steps of the first attempt.
    """

    def __init__(self, task: str) -> None:
        self._task = task
        self._axis: str | None = None
        # The positions of places. A second attempt of a task reports places again.
        self._positions: dict[float, int] = {}

    def point(self, point: Mapping[str, Any], when: float | None = None) -> "Point":
        """Return the next point of the curve in MLflow's form; `when` is the point's time (None = now)."""
        numbers = {
            key: value for key, value in point.items() if isinstance(value, int | float) and math.isfinite(value)
        }
        position = self._positions.setdefault(place_of(point), len(self._positions) + 1)
        if self._axis is None:
            is_whole = float(numbers.get("epoch", 0.5)).is_integer()
            self._axis = "epoch" if is_whole else "step" if "step" in numbers else "number"
        step = math.ceil(numbers.get(self._axis, position))
        shown = {name: value for name, value in numbers.items() if name not in ("epoch", "step", "epochs")}
        metrics = {f"{self._task}/{name}": value for name, value in mlflow_names(shown).items()}
        return {"step": step, "metrics": metrics, "time": when or time.time()}


def _spread(name: str, values: Sequence[float]) -> dict[str, float]:
    return {f"{name}_standard_deviation": statistics.stdev(values)} if len(values) > 1 else {}


def _amount(trial: Trial) -> dict[str, str]:
    return {} if trial.amount is None else {"hpo.amount": str(trial.amount)}
