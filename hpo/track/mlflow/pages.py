"""Addresses of pages of MLflow's UI, relative to where it is served."""

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote

from hpo.config.sealing import hidden
from hpo.errors import TrackError, first_line
from hpo.track.mlflow.quiet import mlflow_environment
from hpo.track.mlflow.store import absolute_uri

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

# Without it a browser that has not been there before is offered chats and judges instead of runs and models.
_KIND = "workflowType=machine_learning"


@dataclass(frozen=True)
class StudyPages:
    """Where a study is in MLflow's UI.

    Attributes:
        study: the page of its run: note, winner, figures, files.
        trials: the table of its trials.
    """

    study: str
    trials: str


def run_page(experiment_id: str, run_id: str) -> str:
    """Return the address of a run's page."""
    return f"#/experiments/{quote(experiment_id)}/runs/{quote(run_id)}?{_KIND}"


def table_page(experiment_id: str, study_id: str) -> str:
    """Return the address of the table of a study's trials: see `hpo.track.mlflow.views`."""
    return f"#/experiments/{quote(experiment_id)}/runs?{_KIND}&viewStateShareKey={quote(study_id)}"


def find_pages(uri: str, study_id: str, name: str) -> StudyPages:
    """Return the pages of a study.

    Raises:
        TrackError: when MLflow does not have it, or cannot be read.
    """
    _, run = find_run(uri, study_id, "--uri")
    if run is None:
        send = f"`hpo sync {name} track.uri={uri}`"
        raise TrackError(hidden(f"--study: '{name}' is not in {uri}; send it with {send}", {}))
    info = run.info
    return StudyPages(run_page(info.experiment_id, info.run_id), table_page(info.experiment_id, study_id))


def find_run(uri: str, study_id: str, option: str) -> "tuple[MlflowClient, Run | None]":
    """Return a client of a tracking store, and the run of a study there; None where it does not know it.

    Args:
        uri: the store's address.
        study_id: the record's.
        option: what gave the address, to be named in an error.

    Raises:
        TrackError: it cannot be read.
    """
    # Before MLflow is imported, which reads it then.
    os.environ.update(mlflow_environment())
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException

    try:
        client = MlflowClient(absolute_uri(uri))
        experiments = [experiment.experiment_id for experiment in client.search_experiments()]
        condition = f"tags.`hpo.study_id` = '{study_id}' and tags.`hpo.kind` = 'study'"
        found = client.search_runs(experiments, condition, max_results=1)
    except MlflowException as error:
        raise TrackError(hidden(f"{option}: {uri} cannot be read: {first_line(error)}", {})) from error
    return client, found[0] if found else None
