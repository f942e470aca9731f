"""MLflow's store: its environment, its address, checks of its file, and queries about a study."""

import contextlib
import os
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from hpo.config.secrets import hide_secrets
from hpo.errors import TrackError, first_line
from hpo.track.views import keys_of_study, tag_of
from hpo.workers.training.own_lines import IMPATIENT, STUDY_ID

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

# Variables that override the user's environment, for example to turn off telemetry and progress bars.
_ALWAYS = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    # The toolkit reports failures in one line instead of MLflow's traceback.
    "MLFLOW_LOGGING_LEVEL": "CRITICAL",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "GIT_PYTHON_REFRESH": "quiet",
}
# Files for reproducing a study; the report attaches them to the study's run.
_FILES = ("config.yaml", "trials.csv", "report.json", "environment.json", "best.yaml")


def mlflow_environment() -> dict[str, str]:
    """Return this process's environment, plus the variables with which the toolkit configures MLflow.

    If the user has set one of the variables in `_ALWAYS`, the toolkit's value replaces the user's value. If the user
    has set one of the variables in `IMPATIENT` (MLflow's timeout and number of retries), the user's value stays.
    """
    # Disable MLflow's retries, because the tracker repeats requests itself after it has checked their effect.
    return IMPATIENT | os.environ | _ALWAYS


def absolute_uri(uri: str) -> str:
    """Return the address of a store; if the address names a SQLite file, make the file's path absolute.

    MLflow keeps one connection per address. With a relative path, MLflow would still use the old file after a change of
    the working directory.
    """
    scheme, mark, path = uri.partition(":///")
    if not (scheme.startswith("sqlite") and mark) or path.startswith("/"):
        return uri
    return f"{scheme}:///{quote(str(Path.cwd()))}/{path}"


def refuse_bad_store(uri: str, experiment: str) -> None:
    """Raise TrackError for an invalid SQLite path, a file that is no database, or a deleted experiment."""
    path = _file_of(uri)
    if path is None or path.is_dir() or str(path).startswith((":memory:", "file:")):
        raise TrackError(f"track.uri: must name a file, such as sqlite:///mlflow.db, given '{uri}'")
    if not path.parent.is_dir():
        raise TrackError(
            f"track.uri: folder '{path.parent}' of '{uri}' does not exist; create the folder, or "
            f"give a file in another folder"
        )
    if not path.exists():
        return
    try:
        with contextlib.closing(_read_only(path)) as database:
            query = "SELECT lifecycle_stage FROM experiments WHERE name = ?"
            row = database.execute(query, (experiment,)).fetchone()
    except sqlite3.OperationalError:
        return  # locked, or without MLflow's tables, which MLflow then creates
    except sqlite3.DatabaseError as error:
        raise TrackError(f"track.uri: {path} is not an MLflow database: {error}; choose another file") from error
    if row is not None and row[0] == "deleted":
        raise TrackError(
            f"track.experiment: '{experiment}' was deleted in '{uri}'; restore the experiment there, or "
            f"choose another name"
        )


def _file_of(uri: str) -> Path | None:
    """Return the path of a store's SQLite file; None for a server."""
    # Lazy, because it imports Optuna, which the process that writes to MLflow does not need.
    from hpo.trials.record.storage import sqlite_path

    return sqlite_path(uri)


def _read_only(path: Path) -> sqlite3.Connection:
    """Open a database for reading, without waiting for writers."""
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=0)


def is_missing(uri: str) -> bool:
    """Return whether the address names a SQLite file that is missing; MLflow would take seconds to create it."""
    path = _file_of(uri)
    return path is not None and not path.is_file()


@contextlib.contextmanager
def reading(uri: str, message: str) -> "Iterator[MlflowClient]":
    """Yield a client of a tracking store; raise TrackError if a request inside the context fails.

    The error's text is `message` with the reason in place of {reason}.
    """
    # Set the environment before the import of MLflow, which reads it.
    os.environ.update(mlflow_environment())
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException

    try:
        yield MlflowClient(absolute_uri(uri))
    except (MlflowException, OSError) as error:
        raise TrackError(hide_secrets(message.replace("{reason}", first_line(error)), {})) from error


def refuse_unsent(uri: str, study_id: str, name: str) -> None:
    """Raise TrackError if a SQLite file lacks a study or is unreadable; do not check servers.

    Do not import MLflow, because the import takes seconds.
    """
    if not _has_study(uri, study_id, if_unknown=False):
        raise unsent(uri, name)


def may_have_study(uri: str, study_id: str) -> bool:
    """Return False if the store is a SQLite file that is missing or does not have the study; otherwise, return True.

    Deleted runs do not count. For a server or an unreadable file, return True without a check, because only MLflow can
    find the runs.
    """
    return not is_missing(uri) and _has_study(uri, study_id, if_unknown=True)


def _has_study(uri: str, study_id: str, if_unknown: bool) -> bool:
    """Return whether a store has a study: True for every server, `if_unknown` for an unreadable SQLite file."""
    path = _file_of(uri)
    if path is None:
        return True
    query = """\
SELECT 1 FROM tags JOIN runs ON runs.run_uuid = tags.run_uuid
WHERE runs.lifecycle_stage = 'active' AND tags.key = 'hpo.study_id' AND tags.value = ?"""
    with contextlib.suppress(sqlite3.Error), contextlib.closing(_read_only(path)) as db:
        return db.execute(query, (study_id,)).fetchone() is not None
    return if_unknown


def unsent(uri: str, name: str) -> TrackError:
    """Return the error for a study that is not in MLflow."""
    send = f"`hpo sync {name} track.uri={uri}`"
    return TrackError(hide_secrets(f"study: '{name}' is not in {uri}; send the study with {send}", {}))


def find_run(client: "MlflowClient", study_id: str) -> "Run | None":
    """Return the parent run of a study; None if the store has none."""
    condition = f"tags.`hpo.study_id` = '{study_id}' and tags.`hpo.kind` = 'study'"
    runs = client.search_runs(experiment_ids(client), condition, max_results=1)
    return runs[0] if runs else None


def read_contents(uri: str, study_id: str) -> tuple[int, set[str]]:
    """Return the number of a study's finished trials in MLflow, and the files of the study's parent run.

    Return (0, set()) if MLflow does not have the study. Raise TrackError if the store is unreadable.
    """
    with reading(uri, f"track.uri: {uri} cannot be read: {{reason}}") as client:
        run = find_run(client, study_id)
        if run is None:
            return 0, set()
        info, condition = run.info, f"tags.`mlflow.parentRunId` = '{run.info.run_id}'"
        trials = sum("hpo.status" in trial.data.tags for trial in all_runs(client, info.experiment_id, condition))
        return trials, {file.path for file in client.list_artifacts(info.run_id)}


def delete_study(uri: str, study_id: str) -> int:
    """Delete the runs of a study and of its trials, and the study's saved views; return the number of deleted runs.

    Afterwards `mlflow gc` frees the space; before that, `mlflow runs restore` can restore the runs. Registered models
    remain. Return 0 if the store does not exist or does not have the study. Raise TrackError if the store is not
    writable.
    """
    if not may_have_study(uri, study_id):
        return 0
    with reading(uri, f"track.uri: {uri} cannot be changed: {{reason}}") as client:
        run = find_run(client, study_id)
        if run is None:
            return 0
        experiment, parent = run.info.experiment_id, run.info.run_id
        runs = all_runs(client, experiment, f"tags.`{STUDY_ID}` = '{study_id}'")
        # Delete the parent run last, so that a repeated call after a failure finds the remaining runs.
        run_ids = sorted((each.info.run_id for each in runs), key=lambda run_id: run_id == parent)
        for run_id in run_ids:
            client.delete_run(run_id)
        views = {tag_of(key) for key in keys_of_study(study_id)}
        for tag in client.get_experiment(experiment).tags.keys() & views:
            client.delete_experiment_tag(experiment, tag)
    return len(run_ids)


def download_study(run_id: str, uri: str, folder: Path) -> int | None:
    """Download the files that reproduce a study; `run_id` is the run of the study or of one of its trials.

    Return the trial's number, or None for the run of a study. Raise TrackError if the store, the run or the files are
    missing.
    """
    if is_missing(uri):
        raise TrackError(
            f"uri: the file {_file_of(uri)} does not exist, given {uri!r}; give the address of the run's store"
        )
    with reading(uri, f"runs:/{run_id}: {{reason}}; looked in {uri}") as client:
        run = client.get_run(run_id)
        trial = run.data.tags.get("hpo.trial")
        parent = run_id
        # The run of a task is below that of its trial, and this one below the study's.
        while "hpo.trial" in run.data.tags and (above := run.data.tags.get("mlflow.parentRunId")):
            run, parent = client.get_run(above), above
        present = {artifact.path for artifact in client.list_artifacts(parent)}
        missing = [name for name in _FILES[:2] if name not in present]
        if missing:
            raise TrackError(
                f"runs:/{run_id}: the study of this run has no {missing[0]} in MLflow; send the study with "
                f"`hpo sync STUDY`"
            )
        for name in _FILES:
            if name in present:
                client.download_artifacts(parent, name, str(folder))
    return None if trial is None else int(trial)


def experiment_ids(client: "MlflowClient") -> list[str]:
    """Return the ids of all experiments, except deleted experiments."""
    return [each.experiment_id for each in _all_pages(lambda token: client.search_experiments(page_token=token))]


def all_runs(client: "MlflowClient", experiment_id: str, condition: str) -> "Iterator[Run]":
    """Yield an experiment's runs that match a search condition of MLflow, except deleted runs."""
    return _all_pages(lambda token: client.search_runs([experiment_id], condition, max_results=1000, page_token=token))


def _all_pages(search: Callable[[str | None], Any]) -> Iterator[Any]:
    """Yield all results of a search in MLflow.

    `search` takes the token of a page, and returns the page. The token of the first page is None.
    """
    token = None
    while True:
        page = search(token)
        yield from page
        token = page.token
        if not token:
            return
