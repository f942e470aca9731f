"""Addresses of pages of MLflow's UI, relative to its root."""

import os
from typing import TYPE_CHECKING
from urllib.parse import quote

from hpo.config.sealing import hidden
from hpo.errors import TrackError, first_line
from hpo.track.mlflow.quiet import mlflow_environment
from hpo.track.mlflow.store import absolute_uri

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

# Without it a new browser shows chats and judges instead of runs and models.
_KIND = "workflowType=machine_learning"
# The table of all experiments.
EXPERIMENTS = f"#/experiments?{_KIND}"


def run_page(experiment_id: str, run_id: str) -> str:
    """Return the address of a run's page."""
    return f"#/experiments/{quote(experiment_id)}/runs/{quote(run_id)}?{_KIND}"


def table_page(experiment_id: str, study_id: str) -> str:
    """Return the address of the table of a study's trials; see `hpo.track.mlflow.views`."""
    return f"#/experiments/{quote(experiment_id)}/runs?{_KIND}&viewStateShareKey={quote(study_id)}"


def find_page(uri: str, study_id: str, name: str) -> str:
    """Return the address of a study's page; TrackError where MLflow does not have it, or cannot be read."""
    _, run = find_run(uri, study_id, "uri")
    if run is None:
        send = f"`hpo sync {name} track.uri={uri}`"
        raise TrackError(hidden(f"study: '{name}' is not in {uri}; send it with {send}", {}))
    return run_page(run.info.experiment_id, run.info.run_id)


def find_run(uri: str, study_id: str, option: str) -> "tuple[MlflowClient, Run | None]":
    """Return a client of a tracking store, and the run of a study there, None if unknown.

    Raises:
        TrackError: the store cannot be read; `option` names its address in the message.
    """
    # Before MLflow is imported, which reads it.
    os.environ.update(mlflow_environment())
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException

    try:
        client = MlflowClient(absolute_uri(uri))
        experiments = [experiment.experiment_id for experiment in client.search_experiments()]
        condition = f"tags.`hpo.study_id` = '{study_id}' and tags.`hpo.kind` = 'study'"
        runs = client.search_runs(experiments, condition, max_results=1)
    except MlflowException as error:
        raise TrackError(hidden(f"{option}: {uri} cannot be read: {first_line(error)}", {})) from error
    return client, runs[0] if runs else None
