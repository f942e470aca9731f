"""Downloads a study's files from MLflow by a run's id."""

import os
from pathlib import Path

from hpo.config.sealing import hidden
from hpo.errors import TrackError, first_line
from hpo.track.mlflow.quiet import mlflow_environment
from hpo.track.mlflow.store import absolute_uri

# Read to reproduce a study; the report attaches them to the study's run.
_FILES = ("config.yaml", "trials.csv", "report.json", "environment.json")


def download_study(run_id: str, uri: str, folder: Path) -> int | None:
    """Download the files of a study's run into the folder; return the trial's number if the run is a trial's.

    Raises:
        TrackError: there is no such run, or it is not a study's.
    """
    path = Path(uri.removeprefix("sqlite:///"))
    if uri.startswith("sqlite:///") and not path.is_file():
        # MLflow would create it, which takes seconds.
        raise TrackError(f"uri: there is no file {path}, given {uri!r}; give the address that runs are in")
    # Before MLflow is imported, which reads it.
    os.environ.update(mlflow_environment())
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException

    try:
        client = MlflowClient(absolute_uri(uri))
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
    except MlflowException as error:
        raise TrackError(hidden(f"runs:/{run_id}: {first_line(error)}; looked in {uri}", {})) from error
    return None if trial is None else int(trial)
