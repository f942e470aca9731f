"""What MLflow has of a study: asked, and not remembered, since others may delete it there."""

from dataclasses import dataclass

from hpo.config.sealing import hidden
from hpo.errors import TrackError, first_line
from hpo.track.mlflow.pages import find_run


@dataclass(frozen=True)
class Contents:
    """What is there.

    Attributes:
        trials: how many trials have a run that shows them finished.
        files: the names of the files of the study's own run.
    """

    trials: int
    files: frozenset[str]


def read_contents(uri: str, study_id: str) -> Contents:
    """Return what a tracking store has of a study; nothing where it does not know it.

    Raises:
        TrackError: it cannot be read.
    """
    client, run = find_run(uri, study_id, "track.uri")
    if run is None:
        return Contents(0, frozenset())
    from mlflow.exceptions import MlflowException

    run_id, trials, token = run.info.run_id, 0, None
    condition = f"tags.`mlflow.parentRunId` = '{run_id}'"
    try:
        while True:
            page = client.search_runs([run.info.experiment_id], condition, max_results=1000, page_token=token)
            trials += sum("hpo.status" in trial.data.tags for trial in page)
            token = page.token
            if not token:
                return Contents(trials, frozenset(file.path for file in client.list_artifacts(run_id)))
    except (MlflowException, OSError) as error:
        raise TrackError(hidden(f"track.uri: {uri} cannot be read: {first_line(error)}", {})) from error
