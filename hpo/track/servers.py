"""The servers of `hpo ui`: MLflow's server, optionally with a password, and a read-only optuna-dashboard."""

import contextlib
import importlib.util
import os
import secrets
import signal
import socket
import subprocess
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
from hpo.track.store import mlflow_environment
from hpo.workers.objective.path import python

_SECONDS_TO_END = 10.0
_SECONDS_BETWEEN = 0.2

_AUTHENTICATION = """\
[mlflow]
default_permission = NO_PERMISSIONS
database_uri = sqlite:///{folder}/users.db
admin_username = {user}
authorization_function = mlflow.server.auth:authenticate_request_basic_auth
"""
# Environment variables with the user and password that MLflow's clients, including `hpo sync`, send.
_USER, _PASSWORD = "MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD"
_SHORTEST = 12  # characters of a password, by MLflow's rule

LOOPBACK = ("127.0.0.1", "localhost", "::1")
# Environment variables of MLflow.
STORE = "MLFLOW_BACKEND_STORE_URI"
_NO_TELEMETRY, _JOBS = "MLFLOW_DISABLE_TELEMETRY", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION"

_READING = ("GET", "HEAD", "OPTIONS")
Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


def mlflow_server(uri: str, host: str, port: int) -> tuple[list[str], dict[str, str]]:
    """Return the command that serves a store, and the command's environment."""
    hosts = [f"{name}{place}" for name in allowed_hosts(host) for place in ("", f":{port}")]
    # Pass the address in the environment: it may contain a password, and arguments are visible to all users.
    environment = mlflow_environment() | {
        "MLFLOW_LOGGING_LEVEL": "ERROR",
        # Turn off jobs: they evaluate chats, take ten processes of 230 MB, and delay the first page by seconds.
        _JOBS: os.environ.get(_JOBS, "false"),
        # Warnings of MLflow's libraries do not help users of studies.
        "PYTHONWARNINGS": "ignore",
        STORE: uri,
        "MLFLOW_SERVER_ALLOWED_HOSTS": ",".join(hosts),
    }
    for loosening in ("MLFLOW_SERVER_DISABLE_SECURITY_MIDDLEWARE", "MLFLOW_ENABLE_REMOTE_ASSISTANT"):
        environment.pop(loosening, None)
    if os.environ.get(_NO_TELEMETRY, "").lower() in ("false", "0"):
        # The user has turned telemetry on.
        environment[_NO_TELEMETRY] = "false"
        environment |= {"DO_NOT_TRACK": os.environ.get("DO_NOT_TRACK", "false")}
    command = python("mlflow", "ui", "--host", host, "--port", str(port), "--workers", "1")
    # Hide the address that uvicorn prints, because it opens another mode of the UI.
    command += ["--uvicorn-opts", "--log-level warning"]
    return command, environment


@contextlib.contextmanager
def running(
    command: Sequence[str], environment: Mapping[str, str], host: str, port: int
) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a server inside the context; yield the server's process once the server answers or has ended."""
    # Give the server its own process group, so that it ends together with its workers, and Ctrl-C reaches only this
    # process. Send its output to standard error, because standard output is for the address.
    server = subprocess.Popen(command, env=environment, stdout=2, start_new_session=True)
    try:
        while server.poll() is None and not _answers(host, port):
            time.sleep(_SECONDS_BETWEEN)
        yield server
    finally:
        _end(server)


def serving(host: str, port: int, variables: Mapping[str, str]) -> int | None:
    """Return the id of a process of this user that listens at this address; None if no process qualifies.

    A process qualifies only if its environment contains `variables`, and if its working directory is the working
    directory of the current process.
    """
    with contextlib.suppress(psutil.Error, OSError):
        for each in psutil.net_connections("tcp"):
            if each.status == psutil.CONN_LISTEN and each.laddr == (host, port) and each.pid:
                process = psutil.Process(each.pid)
                if variables.items() <= process.environ().items() and process.cwd() == str(Path.cwd()):
                    return each.pid
    return None


def _answers(host: str, port: int) -> bool:
    """Return whether a server answers. A request for a password is an answer; a server error is not."""
    with contextlib.closing(HTTPConnection(host, port, timeout=10)) as connection:
        try:
            connection.request("GET", "/")
            return connection.getresponse().status < 500
        except (OSError, HTTPException):
            return False


def _end(server: "subprocess.Popen[bytes]") -> None:
    """End the server and its workers, and wait for them, so that none writes any file afterwards."""
    workers = []
    with contextlib.suppress(psutil.NoSuchProcess):
        workers = psutil.Process(server.pid).children(recursive=True)
    # The group and its listening workers outlive a server that was killed from outside.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(server.pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        server.wait(_SECONDS_TO_END)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(server.pid, signal.SIGKILL)
    server.wait()
    psutil.wait_procs(workers, _SECONDS_TO_END)


def refuse_bad_password() -> None:
    """Raise TrackError if Flask-WTF is not installed, or if the user's password is too short for MLflow."""
    if importlib.util.find_spec("flask_wtf") is None:
        raise TrackError(
            "--password: needs Flask-WTF, which is not installed; run python -m pip install 'hpo-transformer[password]'"
        )
    if (given := os.environ.get(_PASSWORD)) and len(given) < _SHORTEST:
        raise TrackError(
            f"--password: must have {_SHORTEST} characters or more, given {len(given)}; set a longer "
            f"{_PASSWORD}, or unset it, so that `hpo ui` makes a new password"
        )


@contextlib.contextmanager
def asking_for_a_password() -> Iterator[tuple[str, dict[str, str]]]:
    """Yield user and password as text, and the environment variables of a server that requires this password.

    The variables name a file in a temporary folder. The folder exists only inside the context.
    """
    user, own_password = os.environ.get(_USER, "hpo"), os.environ.get(_PASSWORD)
    password = own_password or secrets.token_urlsafe(12)
    text = f"user {user}, password {'of ' + _PASSWORD if own_password else password}"
    # Only this user can read the folder.
    with tempfile.TemporaryDirectory(prefix="hpo-ui-") as folder:
        settings = Path(folder, "auth.ini")
        settings.write_text(_AUTHENTICATION.format(folder=folder, user=user), encoding="utf-8")
        variables = {
            "MLFLOW_AUTH_CONFIG_PATH": str(settings),
            "MLFLOW_AUTH_ADMIN_USERNAME": user,
            "MLFLOW_AUTH_ADMIN_PASSWORD": password,
            "MLFLOW_FLASK_SERVER_SECRET_KEY": secrets.token_hex(32),
        }
        yield text, variables


def load_dashboard() -> Callable[[str], Application]:
    """Return the function that makes a dashboard from a storage's address.

    Raise TrackError if optuna-dashboard is not installed.
    """
    try:
        import optuna_dashboard
    except ImportError as error:
        raise TrackError(
            "--optuna: optuna-dashboard is not installed; run python -m pip install 'hpo-transformer[dashboard]'"
        ) from error
    make: Callable[[str], Application] = optuna_dashboard.wsgi
    return make


def application_server(application: Application, host: str, port: int) -> WSGIServer:
    """Return a dashboard's listening server.

    The server accepts only requests that read, and only under its own host names.
    """
    server = _ServerOfIPv6 if ":" in host else _Server
    return make_server(host, port, guarded(application, allowed_hosts(host)), server, _Quiet)


def allowed_hosts(host: str) -> list[str]:
    """Return the host names that requests to the server may use.

    A request from a foreign web page uses the host name of the foreign page. The server refuses such a request, because
    this host name is not in the list.
    """
    if host in LOOPBACK:
        return ["127.0.0.1", "localhost", "[::1]"]
    if host not in ("0.0.0.0", "::"):
        return [host]
    addresses = [entry.address for entries in psutil.net_if_addrs().values() for entry in entries]
    plain = [address.partition("%")[0] for address in addresses if "." in address or "::" in address]
    named = [f"[{address}]" if ":" in address else address for address in plain]
    return sorted({"localhost", socket.gethostname(), socket.getfqdn(), *named})


def guarded(application: Application, hosts: Sequence[str]) -> Application:
    """Return the application, restricted to requests that only read and that use a host name in `hosts`.

    Only a search may change the record. The check of host names prevents a foreign page from reading the record by DNS
    rebinding. In this attack, the page's host name resolves to the server's address after the page was loaded.
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


class _ServerOfIPv6(_Server):
    address_family = socket.AF_INET6


class _Quiet(WSGIRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Log no requests."""
