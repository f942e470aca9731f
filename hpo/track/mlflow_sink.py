"""Writes messages into MLflow: a parent run per study, a child run per trial. The same message twice is harmless."""

import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mlflow import MlflowClient
from mlflow.entities import Dataset, DatasetInput, InputTag, Metric, Param, RunTag

from hpo.track.messages import Message

# Limits of MLflow's log_batch.
_MAX_METRICS, _MAX_PARAMS = 1000, 100
_MAX_VALUE = 5000


class MlflowSink:
    """Applies messages in order, with explicit run ids.

    What a study and its trials are called in MLflow is looked up by tags, so a second sink, after a crash or
    by `hpo sync`, continues the runs of the first.
    """

    def __init__(self, uri: str, experiment: str, artifact_root: Path) -> None:
        self._client = MlflowClient(uri)
        self._experiment_id = self._experiment(experiment, artifact_root)
        self._parent = ""
        self._runs: dict[int, str] = {}
        self._closed: set[int] = set()
        self._pending: dict[int, list[Metric]] = {}

    def apply(self, messages: Sequence[Message]) -> None:
        """Write the messages; curve points that belong to one run go in one batch."""
        for message in messages:
            getattr(self, f"_{message['do']}")(message)
        for number in list(self._pending):
            self._flush(number)

    def _experiment(self, name: str, artifact_root: Path) -> str:
        found = self._client.get_experiment_by_name(name)
        if found is not None:
            return str(found.experiment_id)
        # Only a store on this machine takes a folder of ours; a server has its own place for artifacts.
        location = artifact_root.absolute().as_uri() if self._client.tracking_uri.startswith("sqlite") else None
        return str(self._client.create_experiment(name, artifact_location=location))

    def _open_study(self, message: Message) -> None:
        tags = message["tags"] | {"hpo.study_id": message["study_id"]}
        found = self._search(f"tags.`hpo.study_id` = '{message['study_id']}' and tags.`hpo.kind` = 'study'")
        if found:
            self._parent = found[0].info.run_id
            self._client.update_run(self._parent, status="RUNNING")
            known = found[0].data.params
            self._describe_study({k: v for k, v in message["params"].items() if k not in known}, message["datasets"])
            for run in self._search(f"tags.`mlflow.parentRunId` = '{self._parent}'"):
                number = int(run.data.tags["hpo.trial"])
                self._runs[number] = run.info.run_id
                if run.info.status in ("FINISHED", "FAILED"):
                    self._closed.add(number)
            return
        run = self._client.create_run(
            self._experiment_id, run_name=message["name"], tags=tags | {"hpo.kind": "study"} | _user()
        )
        self._parent = run.info.run_id
        self._describe_study(message["params"], message["datasets"])

    def _describe_study(self, params: Mapping[str, Any], datasets: Sequence[Mapping[str, Any]]) -> None:
        entries = [Param(key, _text(value)) for key, value in params.items()]
        for start in range(0, len(entries), _MAX_PARAMS):
            self._client.log_batch(self._parent, params=entries[start : start + _MAX_PARAMS])
        if datasets:
            self._client.log_inputs(self._parent, [_dataset(d) for d in datasets])

    def _open_trial(self, message: Message) -> None:
        number = message["number"]
        if number in self._closed:
            return
        if number in self._runs:
            self._client.update_run(self._runs[number], status="RUNNING")
        else:
            self._runs[number] = self._new_trial(number, message)
        # Also where the run was there: an earlier attempt may have failed between the two calls.
        params = [Param(key, _text(value)) for key, value in message["params"].items()]
        self._client.log_batch(self._runs[number], params=params)

    def _new_trial(self, number: int, message: Message) -> str:
        tags = message["tags"] | {"mlflow.parentRunId": self._parent, "hpo.trial": str(number), "hpo.kind": "trial"}
        run = self._client.create_run(
            self._experiment_id,
            start_time=_milliseconds(message["time"]),
            run_name=message["name"],
            tags=tags | _user(),
        )
        return str(run.info.run_id)

    def _curve(self, message: Message) -> None:
        if message["number"] in self._closed:
            return
        timestamp = _milliseconds(message["time"])
        points = [Metric(key, value, timestamp, message["step"]) for key, value in message["metrics"].items()]
        self._pending.setdefault(message["number"], []).extend(points)

    def _close_trial(self, message: Message) -> None:
        number = message["number"]
        if number in self._closed:
            return
        timestamp = _milliseconds(message["time"])
        self._pending.setdefault(number, []).extend(
            Metric(key, value, timestamp, 0) for key, value in message["metrics"].items()
        )
        self._flush(number, [RunTag(key, _text(value)) for key, value in message["tags"].items()])
        if message["details"]:
            self._client.log_text(self._runs[number], message["details"], "error.txt")
        self._client.set_terminated(self._runs[number], message["status"], timestamp)
        self._closed.add(number)

    def _close_study(self, message: Message) -> None:
        now = _milliseconds(time.time())
        metrics = [Metric(key, value, now, 0) for key, value in message["metrics"].items()]
        self._client.log_batch(self._parent, metrics=metrics, tags=[RunTag("mlflow.note.content", message["note"])])
        for path in message["artifacts"]:
            self._client.log_artifact(self._parent, path)
        for number in self._runs.keys() - self._closed:
            self._client.set_terminated(self._runs[number], "KILLED")
        self._client.set_terminated(self._parent, message["status"])

    def _flush(self, number: int, tags: Sequence[RunTag] = ()) -> None:
        metrics = self._pending.pop(number, [])
        for start in range(0, max(len(metrics), 1), _MAX_METRICS):
            chunk = metrics[start : start + _MAX_METRICS]
            self._client.log_batch(self._runs[number], metrics=chunk, tags=tags if start == 0 else ())

    def _search(self, condition: str) -> list[Any]:
        runs: list[Any] = []
        token = None
        while True:
            page = self._client.search_runs([self._experiment_id], condition, max_results=1000, page_token=token)
            runs.extend(page)
            token = page.token
            if not token:
                return runs


def _dataset(message: Mapping[str, Any]) -> DatasetInput:
    dataset = Dataset(
        name=message["name"],
        digest=message["digest"],
        source_type="hpo",
        source=json.dumps({"source": message["source"]}),
        profile=json.dumps(message["profile"]),
    )
    return DatasetInput(dataset, [InputTag("mlflow.data.context", message["context"])])


def _text(value: Any) -> str:
    return str(value)[:_MAX_VALUE]


def _milliseconds(seconds: float) -> int:
    return int(seconds * 1000)


def _user() -> dict[str, str]:
    return {"mlflow.user": os.environ.get("USER", ""), "mlflow.source.name": "hpo", "mlflow.source.type": "LOCAL"}
