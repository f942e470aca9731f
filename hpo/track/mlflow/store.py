"""MLflow's store without MLflow, which takes seconds to load: its environment, its address, checks of its file."""

import contextlib
import os
import sqlite3
from pathlib import Path
from urllib.parse import quote

from hpo.errors import TrackError

# No telemetry, no progress bars; it overrides the user's own environment.
_ALWAYS = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    # We report its failures ourselves, in one line instead of a traceback.
    "MLFLOW_LOGGING_LEVEL": "CRITICAL",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "GIT_PYTHON_REFRESH": "quiet",
}
# A user with a slow server may set these. We repeat requests instead of MLflow, since we first check whether the
# previous one was carried out.
_DEFAULTS = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
}


def mlflow_environment() -> dict[str, str]:
    """Return this process's environment with MLflow's variables."""
    return _DEFAULTS | os.environ | _ALWAYS


def absolute_uri(uri: str) -> str:
    """Return the address with the path of a SQLite file absolute: MLflow keeps one connection per address."""
    scheme, mark, path = uri.partition(":///")
    if not (scheme.startswith("sqlite") and mark) or path.startswith("/"):
        return uri
    return f"{scheme}:///{quote(str(Path.cwd()))}/{path}"


def refuse_bad_store(uri: str, experiment: str) -> None:
    """Raise TrackError for a bad path, a file that is not a database, or an experiment that was deleted.

    `uri` is `sqlite:///` and a path.
    """
    path = Path(uri.partition(":///")[2].partition("?")[0])
    if not path.name or path.is_dir():
        raise TrackError(f"track.uri: must name a file, given '{uri}'; such as sqlite:///mlflow.db")
    if not path.parent.is_dir():
        raise TrackError(f"track.uri: there is no folder {path.parent} for '{uri}'; make it, or give another file")
    if not path.exists():
        return
    try:
        # Read-only, and without waiting for writers.
        with contextlib.closing(
            sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=0)
        ) as database:
            query = "SELECT lifecycle_stage FROM experiments WHERE name = ?"
            row = database.execute(query, (experiment,)).fetchone()
    except sqlite3.OperationalError:
        return  # Locked, or not yet MLflow's, which then creates its tables.
    except sqlite3.DatabaseError as error:
        raise TrackError(f"track.uri: {path} is not an MLflow database: {error}; give another file") from error
    if row is not None and row[0] == "deleted":
        raise TrackError(
            f"track.experiment: '{experiment}' was deleted in '{uri}'; restore it there, or give another name"
        )
