"""The servers that `hpo ui` runs: MLflow's, with a password where one is asked for, and optuna-dashboard, read-only."""

import contextlib
import importlib.util
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import psutil

from hpo.errors import TrackError

_SECONDS_TO_END = 10.0
_SECONDS_BETWEEN = 0.2

_AUTHENTICATION = """\
[mlflow]
default_permission = NO_PERMISSIONS
database_uri = sqlite:///{folder}/users.db
admin_username = {user}
authorization_function = mlflow.server.auth:authenticate_request_basic_auth
"""
# What MLflow's clients send, `hpo sync` among them.
_USER, _PASSWORD = "MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD"
_SHORTEST = 12  # characters of a password, by MLflow

_READING = ("GET", "HEAD", "OPTIONS")
Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


def serve(
    command: Sequence[str], environment: Mapping[str, str], place: tuple[str, int], tell: Callable[[], None]
) -> int:
    """Run a server until it ends or this process is interrupted, and return its exit code.

    `tell` is called once its page answers at `place`, a host and a port.
    """
    # A process group of its own, which is ended as a whole, because the server has workers; Ctrl-C is for this process.
    # Standard output is for the address.
    server = subprocess.Popen(command, env=environment, stdout=2, start_new_session=True)
    try:
        while server.poll() is None and not _answers(*place):
            time.sleep(_SECONDS_BETWEEN)
        if server.poll() is None:
            tell()
        return server.wait()
    finally:
        _end(server)


def serving(host: str, port: int, variables: Mapping[str, str]) -> int | None:
    """Return which process of this user listens there with these variables, in this working directory; None: none."""
    with contextlib.suppress(psutil.Error, OSError):
        for each in psutil.net_connections("tcp"):
            if each.status == psutil.CONN_LISTEN and each.laddr == (host, port) and each.pid:
                process = psutil.Process(each.pid)
                if variables.items() <= process.environ().items() and process.cwd() == str(Path.cwd()):
                    return each.pid
    return None


def _answers(host: str, port: int) -> bool:
    """Return whether a page comes, or the question who asks: a server is there in both cases."""
    with contextlib.closing(HTTPConnection(host, port, timeout=10)) as connection:
        try:
            connection.request("GET", "/")
            return connection.getresponse().status < 500
        except (OSError, HTTPException):
            return False


def _end(server: "subprocess.Popen[bytes]") -> None:
    """End the server and its workers; when this returns, none of them writes into its folder any more."""
    workers = []
    with contextlib.suppress(psutil.NoSuchProcess):
        workers = psutil.Process(server.pid).children(recursive=True)
    # Its group outlives a server that was killed from outside, and so do workers that listen.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(server.pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        server.wait(_SECONDS_TO_END)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(server.pid, signal.SIGKILL)
    server.wait()
    psutil.wait_procs(workers, _SECONDS_TO_END)


def refuse_bad_password() -> None:
    """Raise TrackError where MLflow's server could not ask for the password."""
    if importlib.util.find_spec("flask_wtf") is None:
        raise TrackError("--password: needs Flask-WTF: python -m pip install 'hpo-transformer[password]'")
    if len(os.environ.get(_PASSWORD) or " " * _SHORTEST) < _SHORTEST:
        raise TrackError(f"--password: {_PASSWORD} must have {_SHORTEST} characters or more; without it one is made")


@contextlib.contextmanager
def asking_for_a_password() -> Iterator[dict[str, str]]:
    """Print user and password, and give the variables of a server that asks for them while this is entered."""
    user, given = os.environ.get(_USER, "hpo"), os.environ.get(_PASSWORD)
    password = given or secrets.token_urlsafe(12)
    print(f"user {user}, password {'of ' + _PASSWORD if given else password}", flush=True)
    # The folder can be read by this user alone.
    with tempfile.TemporaryDirectory(prefix="hpo-ui-") as folder:
        settings = Path(folder, "auth.ini")
        settings.write_text(_AUTHENTICATION.format(folder=folder, user=user), encoding="utf-8")
        yield {
            "MLFLOW_AUTH_CONFIG_PATH": str(settings),
            "MLFLOW_AUTH_ADMIN_USERNAME": user,
            "MLFLOW_AUTH_ADMIN_PASSWORD": password,
            "MLFLOW_FLASK_SERVER_SECRET_KEY": secrets.token_hex(32),
        }


def load_dashboard() -> Callable[[str], Application]:
    """Return the function that makes a dashboard from a storage's address; TrackError where none is installed."""
    try:
        import optuna_dashboard
    except ImportError as error:
        raise TrackError(
            "--optuna: optuna-dashboard is not installed; python -m pip install 'hpo-transformer[dashboard]'"
        ) from error
    make: Callable[[str], Application] = optuna_dashboard.wsgi
    return make


def serve_application(
    application: Application, host: str, port: int, hosts: Sequence[str], tell: Callable[[], None]
) -> int:
    """Serve a dashboard read-only, under these names, until it is interrupted; `tell` is called when it listens."""
    with make_server(host, port, guarded(application, hosts), _Server, _Quiet) as server:
        tell()
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            sys.stderr.write("\n")
    return 0


def guarded(application: Application, hosts: Sequence[str]) -> Application:
    """Return the application, read-only and only under these host names.

    Only a search may change the record, which is the truth about a study. And a foreign page whose name is made to
    resolve to this address after it was loaded (DNS rebinding) must not read it.
    """

    def guard(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        name = environ.get("HTTP_HOST", "").rpartition(":")[0] or environ.get("HTTP_HOST", "")
        if environ["REQUEST_METHOD"] not in _READING or name not in hosts:
            start("403 Forbidden", [("Content-Type", "text/plain")])
            return [b"only reading is allowed, and only under this server's own name\n"]
        return application(environ, start)

    return guard


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _Quiet(WSGIRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Log no requests."""
