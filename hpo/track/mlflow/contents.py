"""What MLflow has of a study: always queried, since it may be deleted there."""

from dataclasses import dataclass

from hpo.config.sealing import hidden
from hpo.errors import TrackError, first_line
from hpo.track.mlflow.pages import find_run


@dataclass(frozen=True)
class Contents:
    """The number of trials whose runs are shown as finished, and the names of the files of the study's own run."""

    trials: int
    files: frozenset[str]


def read_contents(uri: str, study_id: str) -> Contents:
    """Return the content of a tracking store for a study, empty where it is unknown; TrackError if unreadable."""
    client, run = find_run(uri, study_id, "track.uri")
    if run is None:
        return Contents(0, frozenset())
    from mlflow.exceptions import MlflowException

    from hpo.track.mlflow.runs import all_runs

    info, condition = run.info, f"tags.`mlflow.parentRunId` = '{run.info.run_id}'"
    try:
        trials = sum("hpo.status" in trial.data.tags for trial in all_runs(client, info.experiment_id, condition))
        return Contents(trials, frozenset(file.path for file in client.list_artifacts(info.run_id)))
    except (MlflowException, OSError) as error:
        raise TrackError(hidden(f"track.uri: {uri} cannot be read: {first_line(error)}", {})) from error
