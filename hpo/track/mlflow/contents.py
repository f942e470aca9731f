"""What MLflow has of a study: always queried, since it may be deleted there."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from hpo.config.sealing import hide_secrets
from hpo.errors import TrackError, first_line
from hpo.track.mlflow.pages import run_page
from hpo.track.mlflow.store import absolute_uri, mlflow_environment

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

# Read to reproduce a study; the report attaches them to the study's run.
_FILES = ("config.yaml", "trials.csv", "report.json", "environment.json")


class Contents(NamedTuple):
    """The number of trials whose runs are shown as finished, and the names of the files of the study's own run."""

    trials: int
    files: frozenset[str]


@contextmanager
def _reading(uri: str, message: str) -> "Iterator[MlflowClient]":
    """Give a client of a tracking store; what fails there is a TrackError with this message, which has {reason}."""
    # Before MLflow is imported, which reads it.
    os.environ.update(mlflow_environment())
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException

    try:
        yield MlflowClient(absolute_uri(uri))
    except (MlflowException, OSError) as error:
        raise TrackError(hide_secrets(message.replace("{reason}", first_line(error)), {})) from error


def _find_run(client: "MlflowClient", study_id: str) -> "Run | None":
    experiments = [experiment.experiment_id for experiment in client.search_experiments()]
    condition = f"tags.`hpo.study_id` = '{study_id}' and tags.`hpo.kind` = 'study'"
    runs = client.search_runs(experiments, condition, max_results=1)
    return runs[0] if runs else None


def find_page(uri: str, study_id: str, name: str) -> str:
    """Return the address of a study's page; TrackError where MLflow does not have it, or cannot be read."""
    with _reading(uri, f"uri: {uri} cannot be read: {{reason}}") as client:
        run = _find_run(client, study_id)
    if run is None:
        send = f"`hpo sync {name} track.uri={uri}`"
        raise TrackError(hide_secrets(f"study: '{name}' is not in {uri}; send it with {send}", {}))
    return run_page(run.info.experiment_id, run.info.run_id)


def read_contents(uri: str, study_id: str) -> Contents:
    """Return the content of a tracking store for a study, empty where it is unknown; TrackError if unreadable."""
    with _reading(uri, f"track.uri: {uri} cannot be read: {{reason}}") as client:
        from hpo.track.mlflow.runs import all_runs

        run = _find_run(client, study_id)
        if run is None:
            return Contents(0, frozenset())
        info, condition = run.info, f"tags.`mlflow.parentRunId` = '{run.info.run_id}'"
        trials = sum("hpo.status" in trial.data.tags for trial in all_runs(client, info.experiment_id, condition))
        return Contents(trials, frozenset(file.path for file in client.list_artifacts(info.run_id)))


def download_study(run_id: str, uri: str, folder: Path) -> int | None:
    """Download the files of a study's run into the folder; return the trial's number if the run is a trial's.

    Raises:
        TrackError: there is no such run, or it is not a study's.
    """
    path = Path(uri.removeprefix("sqlite:///"))
    if uri.startswith("sqlite:///") and not path.is_file():
        # MLflow would create it, which takes seconds.
        raise TrackError(f"uri: there is no file {path}, given {uri!r}; give the address that runs are in")
    with _reading(uri, f"runs:/{run_id}: {{reason}}; looked in {uri}") as client:
        run = client.get_run(run_id)
        trial = run.data.tags.get("hpo.trial")
        parent = run.data.tags.get("mlflow.parentRunId", run_id) if trial is not None else run_id
        there = {artifact.path for artifact in client.list_artifacts(parent)}
        missing = [name for name in _FILES[:2] if name not in there]
        if missing:
            raise TrackError(f"runs:/{run_id}: its study has no {missing[0]} in MLflow; send it with `hpo sync STUDY`")
        for name in _FILES:
            if name in there:
                client.download_artifacts(parent, name, str(folder))
    return None if trial is None else int(trial)
