"""optuna-dashboard on a study's record, read-only."""

import sys
from collections.abc import Callable, Iterable, Sequence
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from hpo.errors import TrackError

_READING = ("GET", "HEAD", "OPTIONS")
Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


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
