"""The experiment that studies share in MLflow: found or created, its saved views, and its description."""

from collections.abc import Mapping
from pathlib import Path

from mlflow import MlflowClient

from hpo.track.pages import STUDIES, run_page, view_page
from hpo.track.views import studies_view, tag_of

_NOTE = "mlflow.note.content"
_DESCRIPTION = "Each run is a study of hyperparameters; the runs under it are its trials."
# First, because a narrow page shows one line.
_LINKS = "Studies: [all]("
# Makes the UI offer runs, models and charts instead of chats and judges.
_TAGS = {
    "mlflow.experimentKind": "custom_model_development",
    "mlflow.experiment.primaryMetric.name": "score",
    _NOTE: _DESCRIPTION,
}
_LATEST = 8


def find_experiment(client: MlflowClient, name: str, artifact_root: Path) -> str:
    """Return the id of the experiment of this name, which is created where there is none."""
    experiment = client.get_experiment_by_name(name)
    if experiment is None:
        # Only a store on this machine takes our folder; a server has its own place for artifacts.
        location = artifact_root.absolute().as_uri() if client.tracking_uri.startswith("sqlite") else None
        experiment = client.get_experiment(client.create_experiment(name, artifact_location=location))
    _write(client, experiment.experiment_id, {key: _TAGS[key] for key in _TAGS.keys() - experiment.tags.keys()})
    return str(experiment.experiment_id)


def show_studies(client: MlflowClient, experiment_id: str, views: Mapping[str, str]) -> None:
    """Write the views of a study, that of all studies, and links to the latest; what is there already stays."""
    experiment = client.get_experiment(experiment_id)
    wanted = {**views, tag_of(STUDIES): studies_view("All studies", (experiment.creation_time or 0) / 1000)}
    if experiment.tags.get(_NOTE, "").startswith((_LINKS, _DESCRIPTION)):
        # It is ours, and no other that somebody wrote.
        runs = client.search_runs([experiment_id], "tags.`hpo.kind` = 'study'", max_results=_LATEST)
        links = [f"[{_plain(run.info.run_name)}]({run_page(experiment_id, run.info.run_id)})" for run in runs]
        every = f"{_LINKS}{view_page(experiment_id, STUDIES)})"
        wanted[_NOTE] = f"{', '.join([every, *links])}. {_DESCRIPTION}"
    _write(client, experiment_id, {key: value for key, value in wanted.items() if experiment.tags.get(key) != value})


def _write(client: MlflowClient, experiment_id: str, tags: Mapping[str, str]) -> None:
    for key, value in tags.items():
        client.set_experiment_tag(experiment_id, key, value)


def _plain(name: str) -> str:
    return "".join(f"\\{letter}" if letter in "\\`*_[]<>#" else letter for letter in name)
