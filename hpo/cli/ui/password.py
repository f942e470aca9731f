"""MLflow's basic auth for the UI: a password for this server only, deleted when it ends."""

import importlib.util
import os
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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


def refuse_bad_password() -> None:
    """Raise TrackError where MLflow's server could not ask for the password."""
    if importlib.util.find_spec("flask_wtf") is None:
        raise TrackError("--password: needs Flask-WTF: python -m pip install 'hpo-transformer[password]'")
    if len(os.environ.get(_PASSWORD) or " " * _SHORTEST) < _SHORTEST:
        raise TrackError(f"--password: {_PASSWORD} must have {_SHORTEST} characters or more; without it one is made")


@contextmanager
def asking_for_a_password() -> Iterator[dict[str, str]]:
    """Print user and password, and give the variables of a server that asks for them while this is entered."""
    user, given = os.environ.get(_USER, "hpo"), os.environ.get(_PASSWORD)
    password = given or secrets.token_urlsafe(12)
    print(f"user {user}, password {'of ' + _PASSWORD if given else password}", flush=True)
    # mkdtemp makes a folder that only this user can read.
    with tempfile.TemporaryDirectory(prefix="hpo-ui-") as folder:
        settings = Path(folder, "auth.ini")
        settings.write_text(_SETTINGS.format(folder=folder, user=user), encoding="utf-8")
        yield {
            "MLFLOW_AUTH_CONFIG_PATH": str(settings),
            "MLFLOW_AUTH_ADMIN_USERNAME": user,
            "MLFLOW_AUTH_ADMIN_PASSWORD": password,
            "MLFLOW_FLASK_SERVER_SECRET_KEY": secrets.token_hex(32),
        }
