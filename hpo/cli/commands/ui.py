"""`hpo ui`: open the MLflow UI on this project's runs, on the loopback address."""

import argparse
import functools
import os
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from hpo.cli.arguments import make_parser
from hpo.cli.browser import open_page
from hpo.cli.servers import (
    asking_for_a_password,
    load_dashboard,
    refuse_bad_password,
    serve,
    serve_application,
    serving,
)
from hpo.config.sealing import hide_secrets
from hpo.config.shipped import MLFLOWS_OWN
from hpo.errors import TrackError
from hpo.workers.objective.path import python

if TYPE_CHECKING:
    from hpo.config.study_config import StudyConfig
    from hpo.track.addresses import Page, TrackedStudy

_EXAMPLES = """\
  hpo ui                                   all studies in mlflow.db, or where MLFLOW_TRACKING_URI says
  hpo ui digits                            the trials of one study, best first, with charts
  hpo ui digits reviews                    the trials of several, and the studies side by side
  hpo ui digits --optuna                   the same study in optuna-dashboard, from its record
  hpo ui --password                        asks for a password, where others use this machine too
  hpo ui --host 10.0.0.5 --expose          for others: there is no password, they may delete what they see"""

_OTHERS_HERE = (
    "note: other users of this machine may reach port {port}, and then read and delete runs, without a password; "
    "--password asks for one"
)
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_DEFAULT_URI = "sqlite:///mlflow.db"
# MLflow's own variable.
_NO_TELEMETRY = "MLFLOW_DISABLE_TELEMETRY"
_JOBS = "MLFLOW_SERVER_ENABLE_JOB_EXECUTION"
_STORE = "MLFLOW_BACKEND_STORE_URI"


def run(arguments: Sequence[str]) -> int:
    """Run the server as a child until it ends; its address is printed once its page answers."""
    given = _parse(arguments)
    _refuse_exposure(given)
    if given.password:
        refuse_bad_password()
    if given.optuna:
        return _serve_record(given)
    of_environment = None if given.studies or given.uri else os.environ.get(MLFLOWS_OWN["uri"])
    uri, studies = _tracked(given) if given.studies else (given.uri or of_environment or _DEFAULT_URI, [])
    if not studies and uri.startswith("sqlite:///") and not Path(uri.removeprefix("sqlite:///")).exists():
        raise TrackError(f"ui: there are no runs yet in {uri}; start some with `hpo search`")
    if of_environment:
        print(f"MLflow: {hide_secrets(uri, {})} ({MLFLOWS_OWN['uri']})", file=sys.stderr, flush=True)
    if uri.startswith(("http://", "https://")):
        # A server shows its runs itself.
        _show(uri.rstrip("/"), _pages(uri, studies), given.browser)
        return 0
    if not given.password and (process := serving(given.host, given.port, {_STORE: uri})) is not None:
        print(f"note: process {process} serves this store already; this is where", file=sys.stderr, flush=True)
        _show(_announced(given), _pages(uri, studies), given.browser)
        return 0
    _refuse_taken_port(given)
    if not given.password and not given.expose:
        print(_OTHERS_HERE.format(port=given.port), file=sys.stderr, flush=True)
    print("starting MLflow ...", file=sys.stderr, flush=True)
    # In this order: a look into the store sets variables of MLflow.
    (command, environment), pages = _server(uri, given), _pages(uri, studies)
    with ExitStack() as stack:
        if given.password:
            command += ["--app-name", "basic-auth"]
            environment |= stack.enter_context(asking_for_a_password())
        tell = functools.partial(_show, _announced(given), pages, given.browser)
        return serve(command, environment, (given.host, given.port), tell)


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = make_parser("ui", __doc__, _EXAMPLES)
    add = parser.add_argument
    what = "open the page of this study, or of several: names under runs/, or folders; without one all studies"
    add("studies", nargs="*", metavar="STUDY", help=what)
    add("--study", dest="one", metavar="STUDY", help="the same, of one study")
    add("--port", type=int, default=5000, help="where it listens (default: 5000)")
    add("--uri", help=f"MLflow store to show (where the study is tracked, {MLFLOWS_OWN['uri']}, or {_DEFAULT_URI})")
    add("--optuna", action="store_true", help="show the study's record in optuna-dashboard instead")
    add("--no-browser", dest="browser", action="store_false", help="only print the address")
    add("--host", default="127.0.0.1", metavar="ADDRESS", help="another address to listen on (default: 127.0.0.1)")
    add("--expose", action="store_true", help="let others in: needed for an address that is not loopback")
    what = "let in only who knows one: MLFLOW_TRACKING_PASSWORD, or one that is made"
    add("--password", action="store_true", help=what)
    given = parser.parse_intermixed_args(arguments)
    given.studies = list(dict.fromkeys([*given.studies, *filter(None, [given.one])]))
    if not 1 <= given.port <= 65535:
        raise TrackError(f"--port: must be 1 to 65535, given {given.port}; leave it out for 5000")
    if given.optuna and len(given.studies) != 1:
        raise TrackError("--optuna: must come with one study, whose record it shows; give --study NAME")
    why = {"password": "whose server has none", "uri": "which shows the study's record"}
    for option in why if given.optuna else ():
        if getattr(given, option):
            raise TrackError(f"--{option}: has no effect with --optuna, {why[option]}; leave it out")
    return given


def _refuse_exposure(given: argparse.Namespace) -> None:
    """Raise TrackError if others could reach the server without --expose; with it print what they may do."""
    if given.expose and given.host in _LOOPBACK:
        nobody = f"has no effect on {given.host}, which nobody else reaches"
        raise TrackError(f"--expose: {nobody}; give --host or leave it out")
    what = "and reads along sees the password: nothing is encrypted"
    if not given.password:
        may = (
            "read the study, and change nothing"
            if given.optuna
            else "read every run and model, and change or delete them"
        )
        what = f"may {may}, without a password"
    rights = f"whoever reaches port {given.port} {what}"
    if not given.expose and given.host not in _LOOPBACK:
        raise TrackError(f"--host: {given.host} is not loopback: {rights}; give --expose to allow this")
    if given.expose:
        print(f"warning: exposed on {given.host}: {rights}", file=sys.stderr)


def allowed_hosts(host: str) -> list[str]:
    """Return the host names under which the server may be addressed; foreign pages in a browser use others."""
    if host in _LOOPBACK:
        return ["127.0.0.1", "localhost", "[::1]"]
    if host not in ("0.0.0.0", "::"):
        return [host]
    addresses = [entry.address for entries in psutil.net_if_addrs().values() for entry in entries]
    plain = [address.partition("%")[0] for address in addresses if "." in address or "::" in address]
    named = [f"[{address}]" if ":" in address else address for address in plain]
    return sorted({"localhost", socket.gethostname(), socket.getfqdn(), *named})


def _tracked(given: argparse.Namespace) -> "tuple[str, list[TrackedStudy]]":
    """Return the store that studies are tracked in, and what they are known by there."""
    from hpo.track.addresses import TrackedStudy
    from hpo.track.make import tracking_uri
    from hpo.track.store import refuse_unsent

    found, uris = [], {}
    for name in given.studies:
        config, _, _, notes = _record(name)
        if given.uri is None and config.track.name == "none":
            send = f"send it with `hpo sync {name}`, then give --uri"
            raise TrackError(f"--study: '{name}' is not tracked; {send}")
        uri = given.uri or tracking_uri(config)
        uris[uri] = name
        refuse_unsent(uri, notes["id"], name)
        found.append(TrackedStudy(Path(name).name, notes["id"], config.study.metric, config.study.direction))
    if len(uris) > 1:
        apart = ", ".join(f"'{name}' in {hide_secrets(uri, {})}" for uri, name in uris.items())
        raise TrackError(f"study: {apart}; MLflow shows one store: send them with `hpo sync STUDY track.uri=...`")
    return uri, found


def _pages(uri: str, studies: "Sequence[TrackedStudy]") -> "list[Page]":
    """Return what is shown of a store: some studies, or all."""
    from hpo.track.addresses import pages_of_all, pages_of_several, pages_of_study

    if not studies:
        return pages_of_all(uri)
    return pages_of_study(uri, studies[0]) if len(studies) == 1 else pages_of_several(uri, studies)


def _serve_record(given: argparse.Namespace) -> int:
    """Serve a study's record in optuna-dashboard."""
    from hpo.track.addresses import Page

    dashboard = load_dashboard()
    _, url, number, _ = _record(given.studies[0])
    _refuse_taken_port(given)
    pages = [Page(f"dashboard/studies/{number}")]
    hosts = allowed_hosts(given.host)
    return serve_application(
        dashboard(url), given.host, given.port, hosts, lambda: _show(_announced(given), pages, given.browser)
    )


def _record(study: str) -> "tuple[StudyConfig, str, int, Mapping[str, Any]]":
    """Return a study's configuration, where its record is, its number there, and its notes."""
    from hpo.study.files.folder import find_study
    from hpo.trials.record.storage import look_up

    folder = find_study(study)
    config = folder.config()
    url = folder.storage_url(config)
    return config, url, *look_up(url, config.study.name)


def _refuse_taken_port(given: argparse.Namespace) -> None:
    try:
        with socket.socket(socket.AF_INET6 if ":" in given.host else socket.AF_INET) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((given.host, given.port))
    except OSError as error:
        place = f"{given.host}:{given.port}"
        raise TrackError(f"ui: cannot listen on {place}: {error.strerror or error}; give another --port") from error


def _announced(given: argparse.Namespace) -> str:
    name = socket.gethostname() if given.host in ("0.0.0.0", "::") else given.host
    return f"http://{f'[{name}]' if ':' in name else name}:{given.port}"


def _show(server: str, pages: "Sequence[Page]", in_browser: bool) -> None:
    """Print the addresses, the first as it is, the others after what is there; if there is a screen, open the first."""
    for place, page in enumerate(pages):
        what = f"{page.what}: " if place else ""
        print(f"{what}{hide_secrets(server, {})}/{page.address}", flush=True)
    if pages[0].what:
        print(f"note: {pages[0].what}", file=sys.stderr, flush=True)
    if in_browser:
        open_page(f"{server}/{pages[0].address}")


def _server(uri: str, given: argparse.Namespace) -> tuple[list[str], dict[str, str]]:
    """Return the command that serves a store, and its environment."""
    from hpo.track.store import mlflow_environment

    hosts = [f"{host}{port}" for host in allowed_hosts(given.host) for port in ("", f":{given.port}")]
    # Not as arguments: the store's address may hold a password, and arguments are visible to all users.
    environment = mlflow_environment() | {
        "MLFLOW_LOGGING_LEVEL": "ERROR",
        # For evaluations of chats: ten processes of 230 MB, and seconds until the page answers.
        _JOBS: os.environ.get(_JOBS, "false"),
        # Of its own libraries, which nobody who looks at studies can heed.
        "PYTHONWARNINGS": "ignore",
        _STORE: uri,
        "MLFLOW_SERVER_ALLOWED_HOSTS": ",".join(hosts),
    }
    for loosening in ("MLFLOW_SERVER_DISABLE_SECURITY_MIDDLEWARE", "MLFLOW_ENABLE_REMOTE_ASSISTANT"):
        environment.pop(loosening, None)
    if os.environ.get(_NO_TELEMETRY, "").lower() in ("false", "0"):
        # Its user has turned it on.
        environment[_NO_TELEMETRY] = "false"
        environment |= {"DO_NOT_TRACK": os.environ.get("DO_NOT_TRACK", "false")}
    command = python("mlflow", "ui", "--host", given.host, "--port", str(given.port), "--workers", "1")
    # Its own lines hold an address that opens another mode.
    command += ["--uvicorn-opts", "--log-level warning"]
    return command, environment
