"""The runs of one study in MLflow: found by their tags, or made; never two for one trial."""

import getpass
from collections.abc import Iterable, Mapping
from typing import Any

from mlflow import MlflowClient
from mlflow.entities import Run

from hpo.track.messages import TrackerMessage

# A parameter's and a tag's value: what every store takes.
MAX_VALUE = 5000
_ENDED = ("FINISHED", "FAILED", "KILLED")


class StudyRuns:
    """The parent run and the children of a study.

    Attributes:
        parent: id of the parent run; empty before `open`.
        trials: id of the child run by the number of its trial.
        closed: the numbers of the trials that are shown as the record has them, to the last value.
        stopped: the numbers of those that are shown as stopped early because others were trained on.
    """

    def __init__(self, client: MlflowClient, experiment_id: str) -> None:
        self._client = client
        self._experiment_id = experiment_id
        self._study_id = ""
        self.parent = ""
        self.trials: dict[int, str] = {}
        self.closed: set[int] = set()
        self.stopped: set[int] = set()

    def open(self, message: TrackerMessage) -> Mapping[str, str]:
        """Find the study's parent run, or make it; return the parameters that it has."""
        self._study_id = message["study_id"]
        found = self._only(self._parents())
        if found is not None:
            self.parent = found.info.run_id
            self._client.update_run(self.parent, status="RUNNING")
            if "hpo.error" in found.data.tags:
                # Why it failed before, from where it now goes on.
                self._client.delete_tag(self.parent, "hpo.error")
            self.find_trials()
            params: Mapping[str, str] = found.data.params
            return params
        tags = message["tags"] | {"hpo.study_id": self._study_id, "hpo.kind": "study"} | _origin()
        run = self._client.create_run(
            self._experiment_id, start_time=milliseconds(message["time"]), run_name=message["name"], tags=texts(tags)
        )
        self.parent = run.info.run_id
        return {}

    def open_trial(self, message: TrackerMessage) -> str:
        """Find the child run of a trial, or make it; return its id."""
        number = message["number"]
        if number in self.trials:
            self._client.update_run(self.trials[number], status="RUNNING")
            return self.trials[number]
        tags = {"mlflow.parentRunId": self.parent, "hpo.trial": str(number), "hpo.kind": "trial"}
        run = self._client.create_run(
            self._experiment_id,
            start_time=milliseconds(message["time"]),
            run_name=message["name"],
            tags=texts(message["tags"]) | tags | _origin(),
        )
        self.trials[number] = run.info.run_id
        return self.trials[number]

    def find_again(self) -> None:
        """Look for what a request made that failed for us: it may have been carried out, and may be later still."""
        if self.parent:
            self._only(self._parents())
            self.find_trials()

    def find_trials(self) -> None:
        """Read from MLflow which trials have a run and which of them are closed; delete second runs of a trial."""
        runs: dict[int, list[Run]] = {}
        for found in self._search(f"tags.`mlflow.parentRunId` = '{self.parent}'"):
            runs.setdefault(int(found.data.tags["hpo.trial"]), []).append(found)
        for number, candidates in runs.items():
            run = self._only(candidates, self.trials.get(number))
            assert run is not None
            self.trials[number] = run.info.run_id
            if "hpo.status" in run.data.tags:
                self.closed.add(number)
                # A request of before may have been carried out after the one that closed the run.
                if run.info.status not in _ENDED:
                    self._client.set_terminated(run.info.run_id, run.data.tags["hpo.status"], run.info.end_time)
            if "hpo.stopped" in run.data.tags:
                self.stopped.add(number)

    def _parents(self) -> list[Run]:
        return self._search(f"tags.`hpo.study_id` = '{self._study_id}' and tags.`hpo.kind` = 'study'")

    def _only(self, runs: Iterable[Run], ours: str | None = None) -> Run | None:
        """Return the run that is kept of those for the same: ours, else a closed one, else the oldest."""
        ranked = sorted(
            runs,
            key=lambda run: (
                run.info.run_id != (ours or self.parent),
                "hpo.status" not in run.data.tags,
                run.info.start_time,
            ),
        )
        for run in ranked[1:]:
            self._client.delete_run(run.info.run_id)
        return ranked[0] if ranked else None

    def _search(self, condition: str) -> list[Run]:
        runs: list[Run] = []
        token = None
        while True:
            page = self._client.search_runs([self._experiment_id], condition, max_results=1000, page_token=token)
            runs.extend(page)
            token = page.token
            if not token:
                return runs


def texts(values: Mapping[str, Any]) -> dict[str, str]:
    """Return the values as MLflow takes them, as text of bounded length."""
    return {key: str(value)[:MAX_VALUE] for key, value in values.items()}


def milliseconds(seconds: float) -> int:
    """Return a time as MLflow has it."""
    return int(seconds * 1000)


def _origin() -> dict[str, str]:
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        # A container's user need not have a name.
        user = ""
    return {"mlflow.user": user, "mlflow.source.name": "hpo", "mlflow.source.type": "LOCAL"}
