"""Finds or creates an MLflow experiment and a study's runs in it; runs are found by tags, so no trial has two runs."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from mlflow import MlflowClient
from mlflow.entities import Run, RunTag

from hpo.track.store import all_runs
from hpo.track.views import (
    COLOR_TAG,
    FRONT_TAG,
    STUDIES,
    color_of_study,
    color_of_trial,
    escape,
    run_page,
    studies_view,
    tag_of,
    view_page,
)
from hpo.trials.space.dimensions import as_value
from hpo.workers.training.own_lines import KIND, PARENT, STATUS, STUDY_ID, TRIAL, experiment_of, origin_tags

# Maximum length of a parameter's and a tag's value in every store.
MAX_VALUE = 5000
_ENDED = ("FINISHED", "FAILED", "KILLED")


class StudyRuns:
    """The ids of a study's MLflow runs: the parent run, and its child runs.

    Attributes:
        study_id, name: the id and the name of the study; empty before `open`.
        color: the color of the parent run; empty before `open`.
        parent: the id of the parent run; empty before `open`.
        params: the names of the parent's parameters.
        trials: the ids of child runs by trial number.
        closed: the trials whose runs are complete, as a set of trial numbers.
        stopped: the trials that MLflow shows as stopped early, as a set of trial numbers.
        on_front: by trial number, whether MLflow shows the trial as on the front.
    """

    def __init__(self, client: MlflowClient, experiment_id: str) -> None:
        self._client = client
        self._experiment_id = experiment_id
        self.study_id = ""
        self.name = ""
        self.color = ""
        self.parent = ""
        self.params: set[str] = set()
        self.trials: dict[int, str] = {}
        self.closed: set[int] = set()
        self.stopped: set[int] = set()
        self.on_front: dict[int, bool] = {}

    def open(self, study_id: str, name: str, tags: Mapping[str, str], seconds: float) -> None:
        """Find or create the study's parent run."""
        self.study_id, self.name = study_id, name
        known = self._only(self._parents())
        if known is not None:
            self.parent = known.info.run_id
            self._client.update_run(self.parent, status="RUNNING")
            if "hpo.error" in known.data.tags:
                # Remove the old failure, because the study continues.
                self._client.delete_tag(self.parent, "hpo.error")
            self.find_trials()
            self.params = set(known.data.params)
            self.color = known.data.tags.get(COLOR_TAG, "")
        if not self.color:
            are_studies = f"tags.`hpo.kind` = 'study' and tags.`{COLOR_TAG}` LIKE '#%'"
            self.color = color_of_study(sum(1 for _ in all_runs(self._client, self._experiment_id, are_studies)))
        if known is None:
            self.parent = self._create(name, {**tags, STUDY_ID: study_id, KIND: "study"}, seconds)
            # Runs of trials may exist: the parent run may have been deleted, or a worker may have created runs before.
            self.find_trials()
        self._client.set_tag(self.parent, COLOR_TAG, self.color)

    def open_trial(self, number: int, name: str, tags: Mapping[str, str], seconds: float) -> str:
        """Find or create the child run of a trial; return the run's id."""
        if number in self.trials:
            self._client.update_run(self.trials[number], status="RUNNING")
        else:
            self.trials[number] = self._create(name, {**tags, **self._tags_of(number)}, seconds)
        return self.trials[number]

    def adopt_trial(self, number: int, run_id: str, tags: Mapping[str, str]) -> None:
        """Make an MLflow run from a worker the run of a trial.

        If the trial already has another run, mark the worker's run as the run of a task instead, and make it a child of
        the trial's run.
        """
        if (known := self.trials.setdefault(number, run_id)) == run_id:
            written = texts({**tags, **self._tags_of(number)})
            self._client.log_batch(run_id, tags=[RunTag(key, value) for key, value in written.items()])
        else:
            self._client.set_tag(run_id, KIND, "task")
            self._client.set_tag(run_id, PARENT, known)

    def adopt_task(self, number: int, run_id: str) -> None:
        """Make the MLflow run of a task a child of its trial's run; do nothing if the trial has no run yet."""
        if number in self.trials:
            self._client.set_tag(run_id, PARENT, self.trials[number])

    def still_running(self) -> Iterable[Run]:
        """Yield the study's runs that MLflow shows as running, except the parent run."""
        condition = f"attributes.status = 'RUNNING' and tags.`{STUDY_ID}` = '{self.study_id}'"
        runs = all_runs(self._client, self._experiment_id, condition)
        return (run for run in runs if run.info.run_id != self.parent)

    def _tags_of(self, number: int) -> dict[str, str]:
        ours = {PARENT: self.parent, STUDY_ID: self.study_id, TRIAL: str(number), KIND: "trial"}
        # These tags distinguish the trial from trials of other studies.
        return ours | {"hpo.study": self.name, COLOR_TAG: color_of_trial(self.color, number)}

    def _create(self, name: str, tags: Mapping[str, str], seconds: float) -> str:
        every = texts({**tags, **origin_tags()})
        run = self._client.create_run(self._experiment_id, milliseconds(seconds), every, name)
        return str(run.info.run_id)

    def find_again(self) -> None:
        """Search again for runs that a failed request may have created, or may still create."""
        if self.parent:
            self._only(self._parents())
            self.find_trials()

    def find_trials(self) -> None:
        """Read the runs of trials, and the states of these runs; delete duplicate runs of a trial."""
        runs = defaultdict[int, list[Run]](list)
        are_trials = f"tags.`{STUDY_ID}` = '{self.study_id}' and tags.`{KIND}` = 'trial'"
        for run in all_runs(self._client, self._experiment_id, are_trials):
            runs[int(run.data.tags[TRIAL])].append(run)
        for number, candidates in runs.items():
            only = self._only(candidates, self.trials.get(number))
            assert only is not None
            self.trials[number] = only.info.run_id
            if only.data.tags.get(PARENT) != self.parent:
                self._client.set_tag(only.info.run_id, PARENT, self.parent)
            if STATUS in only.data.tags:
                self.closed.add(number)
                # A delayed request may have reopened the run after its end.
                if only.info.status not in _ENDED:
                    self._client.set_terminated(only.info.run_id, only.data.tags[STATUS], only.info.end_time)
            if "hpo.stopped" in only.data.tags:
                self.stopped.add(number)
            if FRONT_TAG in only.data.tags:
                self.on_front[number] = only.data.tags[FRONT_TAG] == "true"

    def _parents(self) -> Iterable[Run]:
        condition = f"tags.`{STUDY_ID}` = '{self.study_id}' and tags.`{KIND}` = 'study'"
        return all_runs(self._client, self._experiment_id, condition)

    def _only(self, runs: Iterable[Run], ours: str | None = None) -> Run | None:
        """Return one of the runs, and delete the others; return None if there are no runs.

        Prefer the run with the id `ours` (default: the parent run), then a complete run. Between equals, prefer the
        oldest run.
        """

        def rank(run: Run) -> tuple[bool, bool, int]:
            return run.info.run_id != (ours or self.parent), STATUS not in run.data.tags, run.info.start_time

        ranked = sorted(runs, key=rank)
        for run in ranked[1:]:
            self._client.delete_run(run.info.run_id)
        return ranked[0] if ranked else None


def texts(values: Mapping[str, Any]) -> dict[str, str]:
    """Return the values as texts of limited length, with lists and mappings as JSON."""
    return {key: str(as_value(value))[:MAX_VALUE] for key, value in values.items()}


def milliseconds(seconds: float) -> int:
    """Return a time in milliseconds, which are MLflow's unit."""
    return int(seconds * 1000)


_NOTE = "mlflow.note.content"
_DESCRIPTION = "Each run is a study of hyperparameters; the runs under it are its trials."
# The links come first, because a narrow page shows only one line.
_LINKS = "Studies: [all]("
# These tags make the UI offer runs, models and charts instead of chats and judges.
_TAGS = {
    "mlflow.experimentKind": "custom_model_development",
    "mlflow.experiment.primaryMetric.name": "score",
    _NOTE: _DESCRIPTION,
}
_LATEST = 8


def find_experiment(client: MlflowClient, name: str, artifact_root: Path) -> str:
    """Return the id of the experiment of this name; create the experiment if it does not exist.

    If the experiment lacks tags of the toolkit, add these tags.
    """
    experiment = experiment_of(client, name, artifact_root)
    _write(client, experiment.experiment_id, {key: _TAGS[key] for key in _TAGS.keys() - experiment.tags.keys()})
    return str(experiment.experiment_id)


def show_studies(client: MlflowClient, experiment_id: str, views: Mapping[str, str]) -> None:
    """Set an experiment's tags: the saved views of a study, a view of all studies, and a description.

    The description links to the latest studies; if a user has written a description, leave it unchanged. Tags that
    already have the right value are not written again.
    """
    experiment = client.get_experiment(experiment_id)
    wanted = {**views, tag_of(STUDIES): studies_view("All studies", (experiment.creation_time or 0) / 1000)}
    if experiment.tags.get(_NOTE, "").startswith((_LINKS, _DESCRIPTION)):
        # Replace only our own description, not a user's.
        runs = client.search_runs([experiment_id], "tags.`hpo.kind` = 'study'", max_results=_LATEST)
        links = [f"[{escape(run.info.run_name)}]({run_page(experiment_id, run.info.run_id)})" for run in runs]
        every = f"{_LINKS}{view_page(experiment_id, STUDIES)})"
        wanted[_NOTE] = f"{', '.join([every, *links])}. {_DESCRIPTION}"
    _write(client, experiment_id, {key: value for key, value in wanted.items() if experiment.tags.get(key) != value})


def _write(client: MlflowClient, experiment_id: str, tags: Mapping[str, str]) -> None:
    for key, value in tags.items():
        client.set_experiment_tag(experiment_id, key, value)
