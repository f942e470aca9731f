"""Writes messages into MLflow: a parent run per study, a child run per trial. A repeated message is harmless."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import mlflow
from mlflow import MlflowClient
from mlflow.entities import Dataset, DatasetInput, InputTag, Metric, Param, RunTag

from hpo.track.messages import TrackerMessage
from hpo.track.models import register_champion
from hpo.track.runs import StudyRuns, find_experiment, milliseconds, show_studies, texts
from hpo.track.views import FRONT_TAG, fill_in, run_page, study_views, view_page
from hpo.trials.trial import loss_sign

# Limits of MLflow's log_batch.
_MAX_METRICS, _MAX_PARAMS = 1000, 100
# Maximum length of a description; other tags are shorter.
_MAX_NOTE = 7900
# The parent run's key among the numbers of trials.
_PARENT = -1

_Point = tuple[str, int]


class MlflowSink:
    """Applies messages in order: each is one of the methods, by what it has to `do`.

    Runs are looked up by tags, so a second sink, after a crash or by `hpo sync`, continues the runs of the first.
    """

    def __init__(self, uri: str, experiment: str, artifact_root: Path) -> None:
        # Also for the process: MLflow looks up registered models' sources there, with any client.
        mlflow.set_tracking_uri(uri)
        self._client = MlflowClient(uri)
        self._experiment_id = find_experiment(self._client, experiment, artifact_root)
        self._runs = StudyRuns(self._client, self._experiment_id)
        # By key and step: a repeated point counts once, and that of a second attempt replaces the first.
        self._pending: dict[int, dict[_Point, Metric]] = {}
        # The curve points that MLflow has of running trials; a dead worker may have sent some already.
        self._curves: dict[int, set[_Point]] = {}
        # The best of the complete trials within the limits, of those closed: of the largest scale, and of these the
        # least loss. And the sign that makes a loss.
        self._best, self._sign = (math.inf, math.inf), 1.0
        # Metrics of trials that the study's run shows beside their scores.
        self._further: Sequence[str] = ()
        # The points of the trials, and what the study's budget of trials is.
        self._points: dict[int, str] = {}
        self._budget: Mapping[str, Any] = {}
        self._is_unsure = self._was_unsure = False

    def apply(self, messages: Sequence[TrackerMessage]) -> None:
        """Write the messages; curve points of one run are sent in one batch."""
        if self._is_unsure:
            self._runs.find_again()
            self._was_unsure = True
        self._is_unsure = True
        self._pending.clear()
        for message in messages:
            getattr(self, f"_{message['do']}")(message)
        for number in list(self._pending):
            self._flush(number, {"hpo.trials": self._done()} if number == _PARENT else None)
        self._is_unsure = False

    def _open_study(self, message: TrackerMessage) -> None:
        self._runs.open(message)
        self._log_params(message["params"])
        # Also of a run that is there already: the study goes on, with another state, or another budget.
        self._tag_study(message)
        if message["datasets"]:
            self._client.log_inputs(self._runs.parent, [_dataset(d) for d in message["datasets"]])
        show_studies(self._client, self._experiment_id, study_views(message, self._runs.parent))
        self._further, self._budget, self._points = message["metrics"][1:], message["budget"], {}
        self._best, self._sign = (math.inf, math.inf), loss_sign(message["direction"])
        self._set_note(message["note"])

    def _log_params(self, values: Mapping[str, Any]) -> None:
        """Log the study's parameters, those that it does not have; one cannot be changed."""
        params = [Param(key, value) for key, value in texts(values).items() if key not in self._runs.params]
        for start in range(0, len(params), _MAX_PARAMS):
            self._client.log_batch(self._runs.parent, params=params[start : start + _MAX_PARAMS])
        self._runs.params |= {param.key for param in params}

    def _set_note(self, note: str) -> None:
        pages = {number: run_page(self._experiment_id, run_id) for number, run_id in self._runs.trials.items()}
        text = fill_in(note, self._runs.parent, view_page(self._experiment_id, self._runs.study_id), pages)
        self._client.set_tag(self._runs.parent, "mlflow.note.content", text[:_MAX_NOTE])

    def _open_trial(self, message: TrackerMessage) -> None:
        number = message["number"]
        self._points[number] = message["tags"]["hpo.point"]
        if number in self._runs.closed:
            return
        is_new = number not in self._runs.trials
        run_id = self._runs.open_trial(message)
        if number not in self._curves:
            self._curves[number] = set() if is_new else self._known_points(run_id)
        # Also for an existing run: an earlier attempt may have failed between the two calls.
        self._client.log_batch(run_id, params=[Param(k, v) for k, v in texts(message["params"]).items()])

    def _known_points(self, run_id: str) -> set[_Point]:
        keys = self._client.get_run(run_id).data.metrics
        return {(key, point.step) for key in keys for point in self._client.get_metric_history(run_id, key)}

    def _curve(self, message: TrackerMessage) -> None:
        number, step = message["number"], message["step"]
        if number in self._runs.closed:
            return
        known = self._curves.get(number, ())
        new = {key: value for key, value in message["metrics"].items() if (key, step) not in known}
        self._add(number, new, message["time"], step)

    def _close_trial(self, message: TrackerMessage) -> None:
        number, score, tags = message["number"], message["metrics"].get("score"), message["tags"]
        counts = tags["hpo.state"] == "complete" and tags.get("hpo.is_within_limits") != "false"
        key = (-message["scale"], self._sign * score) if score is not None and counts else (math.inf, math.inf)
        is_best, self._best = key < self._best, min(key, self._best)
        if number in self._runs.closed:
            return
        self._add(number, message["metrics"], message["time"])
        # The study's run is written with the batch, and says how many trials are done.
        self._add(_PARENT, {}, message["time"])
        if score is not None:
            # The page shows metrics in the order of their first points.
            best = {"best_score": score} if is_best else {}
            self._add(_PARENT, best | self._of_trial(message["metrics"]), message["time"], number)
        run_id = self._runs.trials[number]
        if message["details"]:
            self._client.log_text(run_id, message["details"], "error.txt")
        # The status tag is last: a run that has it is complete.
        self._flush(number, tags | {"hpo.status": message["status"]})
        self._client.set_terminated(run_id, message["status"], milliseconds(message["time"]))
        self._runs.closed.add(number)
        self._curves.pop(number, None)

    def _done(self) -> str:
        """Return how many trials are done, or configurations, where these are what the budget counts."""
        closed, counts = self._runs.closed, self._budget["counts"]
        num_done = len({self._points[number] for number in closed}) if counts == "configurations" else len(closed)
        return f"{num_done} of {self._budget['trials']}"

    def _train_further(self, message: TrackerMessage) -> None:
        number, metrics = message["number"], message["metrics"]
        for point in message["points"]:
            self._add(number, point["metrics"], point["time"], point["step"])
        self._add(number, metrics, message["time"])
        if "score" in metrics:
            self._add(_PARENT, self._of_trial(metrics), message["time"], number)
        self._flush(number, message["tags"])

    def _of_trial(self, metrics: Mapping[str, float]) -> dict[str, float]:
        return {f"trial_{name}": metrics[name] for name in ("score", *self._further) if name in metrics}

    def _show_front(self, message: TrackerMessage) -> None:
        members, shown = set(message["numbers"]), self._runs.on_front
        for number in sorted(self._runs.closed):
            if shown.get(number) != (number in members):
                self._client.set_tag(self._runs.trials[number], FRONT_TAG, str(number in members).lower())
                shown[number] = number in members

    def _stop_trials(self, message: TrackerMessage) -> None:
        now, shown = {n for n in message["numbers"] if n in self._runs.closed}, self._runs.stopped
        for number in now - shown:
            self._client.set_tag(self._runs.trials[number], "hpo.stopped", "others of its rung were continued")
            self._set_status(number, "KILLED")
        for number in shown - now:
            self._set_status(number, "FINISHED")
            self._client.delete_tag(self._runs.trials[number], "hpo.stopped")
        self._runs.stopped = now

    def _set_status(self, number: int, status: str) -> None:
        self._client.set_tag(self._runs.trials[number], "hpo.status", status)
        self._client.update_run(self._runs.trials[number], status=status)

    def _register_model(self, message: TrackerMessage) -> None:
        version = register_champion(self._client, self._experiment_id, self._runs.parent, message)
        self._client.set_tag(self._runs.parent, "hpo.model", f"models:/{message['name']}/{version}")

    def _tag_study(self, message: TrackerMessage) -> None:
        self._client.log_batch(self._runs.parent, tags=[RunTag(k, v) for k, v in texts(message["tags"]).items()])

    def _close_study(self, message: TrackerMessage) -> None:
        if self._was_unsure:
            self._runs.find_again()
        parent = self._runs.parent
        for number, score, seconds in message["best"]:
            self._add(_PARENT, {"best_score": score}, seconds, number)
        others = {key: value for key, value in message["metrics"].items() if key != "best_score"}
        self._add(_PARENT, others, message["time"])
        self._flush(_PARENT, message["tags"])
        self._log_params(message["params"])
        self._set_note(message["note"])
        for path in message["artifacts"]:
            if Path(path).exists():
                self._client.log_artifact(parent, path)
        if message["error"] is not None:
            self._client.log_text(parent, message["error"], "error.txt")
            self._tag_study({"tags": {"hpo.error": message["error"].strip().rpartition("\n")[2]}})
        self._end_open_trials()
        self._client.set_terminated(parent, message["status"], milliseconds(message["time"]))

    def _abandon_study(self, _message: TrackerMessage) -> None:
        """Show the study as killed: its driver died."""
        if self._runs.parent:
            self._tag_study({"tags": {"hpo.state": "interrupted"}})
            self._end_open_trials()
            self._client.set_terminated(self._runs.parent, "KILLED")

    def _end_open_trials(self) -> None:
        for number in self._runs.trials.keys() - self._runs.closed:
            self._client.set_terminated(self._runs.trials[number], "KILLED")

    def _add(self, number: int, metrics: Mapping[str, float], seconds: float, step: int = 0) -> None:
        points = {(key, step): Metric(key, value, milliseconds(seconds), step) for key, value in metrics.items()}
        self._pending.setdefault(number, {}).update(points)

    def _flush(self, number: int, tags: Mapping[str, Any] | None = None) -> None:
        metrics = list(self._pending.get(number, {}).values())
        run_id = self._runs.parent if number == _PARENT else self._runs.trials[number]
        entries = [RunTag(key, value) for key, value in texts(tags or {}).items()]
        for start in range(0, max(len(metrics), 1), _MAX_METRICS):
            chunk = metrics[start : start + _MAX_METRICS]
            is_last = start + _MAX_METRICS >= len(metrics)
            self._client.log_batch(run_id, metrics=chunk, tags=entries if is_last else ())
        self._pending.pop(number, None)
        if number in self._curves:
            self._curves[number].update((metric.key, metric.step) for metric in metrics)


def _dataset(message: Mapping[str, Any]) -> DatasetInput:
    dataset = Dataset(
        name=message["name"],
        digest=message["digest"],
        source_type="hpo",
        source=json.dumps({"source": message["source"]}),
        profile=json.dumps(message["profile"]),
    )
    return DatasetInput(dataset, [InputTag("mlflow.data.context", message["context"])])
