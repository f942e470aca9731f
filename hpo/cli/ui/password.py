"""MLflow's basic auth for the UI: a password for this server only, deleted when it ends."""

import contextlib
import importlib.util
import os
import secrets
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

from hpo.errors import TrackError

_SETTINGS = """\
[mlflow]
default_permission = NO_PERMISSIONS
database_uri = sqlite:///{folder}/users.db
admin_username = {user}
authorization_function = mlflow.server.auth:authenticate_request_basic_auth
"""
# What MLflow's clients send, `hpo sync` among them.
_USER, _PASSWORD = "MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD"
_SHORTEST = 12  # characters of a password, by MLflow
_SECONDS_TO_END = 10.0


def refuse_bad_password() -> None:
    """Raise TrackError where MLflow's server could not ask for the password."""
    if importlib.util.find_spec("flask_wtf") is None:
        raise TrackError("--password: needs Flask-WTF: python -m pip install 'hpo-transformer[password]'")
    if len(os.environ.get(_PASSWORD) or " " * _SHORTEST) < _SHORTEST:
        raise TrackError(f"--password: {_PASSWORD} must have {_SHORTEST} characters or more; without it one is made")


def serve_with_password(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run MLflow's server behind a password until it ends, and return its exit code.

    Args:
        command: starts the server.
        environment: the server's.
    """
    user, given = os.environ.get(_USER, "hpo"), os.environ.get(_PASSWORD)
    password = given or secrets.token_urlsafe(12)
    print(f"user {user}, password {'of ' + _PASSWORD if given else password}", flush=True)
    # mkdtemp makes a folder that only this user can read.
    with tempfile.TemporaryDirectory(prefix="hpo-ui-") as folder:
        settings = Path(folder, "auth.ini")
        settings.write_text(_SETTINGS.format(folder=folder, user=user), encoding="utf-8")
        theirs = {
            **environment,
            "MLFLOW_AUTH_CONFIG_PATH": str(settings),
            "MLFLOW_AUTH_ADMIN_USERNAME": user,
            "MLFLOW_AUTH_ADMIN_PASSWORD": password,
            "MLFLOW_FLASK_SERVER_SECRET_KEY": secrets.token_hex(32),
        }
        # A separate process group, which is ended as a whole, because the server has workers.
        server = subprocess.Popen([*command, "--app-name", "basic-auth"], env=theirs, start_new_session=True)
        try:
            return server.wait()
        finally:
            _end(server)


def _end(server: "subprocess.Popen[bytes]") -> None:
    """End the server and its workers; when this returns, none of them writes into the folder any more."""
    workers = []
    with contextlib.suppress(psutil.NoSuchProcess):
        workers = psutil.Process(server.pid).children(recursive=True)
    server.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        server.wait(_SECONDS_TO_END)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(server.pid, signal.SIGKILL)
    server.wait()
    psutil.wait_procs(workers, _SECONDS_TO_END)
