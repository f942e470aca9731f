"""`ui` and `hpo.open_ui`: serve the MLflow UI, or optuna-dashboard, for this project's studies."""

import atexit
import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import webbrowser
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from hpo.commands.arguments import Fields, Word, name_or_path, refuse_without_effect
from hpo.config.secrets import hide_secrets
from hpo.config.shipped import MLFLOWS_OWN
from hpo.errors import TrackError
from hpo.workers.objective.path import python

if TYPE_CHECKING:
    from hpo.config.study_config import StudyConfig
    from hpo.track.addresses import Page, TrackedStudy

_LOCAL_USERS_NOTE = (
    "note: other users of this machine can reach port {port}, and read and delete runs without a password; "
    "--password asks for one"
)
_DEFAULT_URI = "sqlite:///mlflow.db"


@dataclass(frozen=True)
class Server(Fields):
    """A server that runs until it is closed, or until this process ends.

    If another process serves the pages already, the object has only the addresses, and `close` does nothing.

    Attributes:
        address: the address to open in a browser.
        pages: the addresses of further pages, by title.
        login: a text with the user name and the password. If the password is from an environment variable, the text
            has the variable's name instead of the password. None = the server asks for no password.
    """

    address: str
    pages: Mapping[str, str] = field(default_factory=dict)
    login: str | None = None
    _wait: Callable[[], int] = field(default=lambda: 0, repr=False)
    _close: Callable[[], Any] = field(default=lambda: None, repr=False)
    # The address, with its secrets, that a shell opens in a browser; empty = do not open a browser.
    _opens: str = field(default="", repr=False)

    def wait(self) -> int:
        """Open the address in a browser if there is a screen, wait until the server ends, and return the exit code."""
        if self._opens and (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY") or sys.platform == "darwin"):
            webbrowser.open(self._opens)
        return self._wait()

    def close(self) -> None:
        """End the server."""
        self._close()

    def __str__(self) -> str:
        return "\n".join(
            [*filter(None, [self.login]), self.address, *(f"{what}: {address}" for what, address in self.pages.items())]
        )

    def _repr_html_(self) -> str:
        return f'<a href="{self.address}" target="_blank">{self.address}</a>'


def ui(
    studies: Annotated[
        Sequence[str],
        Word(
            "STUDY",
            "open the page of these studies: names under runs/, or folders (default: all studies)",
            collect=list,
        ),
    ] = (),
    *,
    study: Annotated[str | None, Word("STUDY")] = None,
    port: int = 5000,
    uri: str | None = None,
    optuna: bool = False,
    browser: bool = True,
    host: Annotated[str, Word("ADDRESS")] = "127.0.0.1",
    expose: bool = False,
    password: bool = False,
) -> Server:
    """On the loopback address, serve the MLflow UI for this project's runs, and open the UI in a browser.

    Args:
        study: one study, by name or folder, in addition to the positional arguments STUDY.
        port: the port to listen on (default: 5000).
        uri: the MLflow store to show (default: the study's store, else MLFLOW_TRACKING_URI or sqlite:///mlflow.db).
        optuna: show the study's record in optuna-dashboard instead.
        browser: open the UI in a browser; --no-browser only prints the address.
        host: the address to listen on (default: 127.0.0.1).
        expose: allow access from other machines; needed with --host.
        password: protect the UI with the password in MLFLOW_TRACKING_PASSWORD, or else with a new password, which the
            command prints.

    Raises:
        hpo.HpoError: there are no runs yet, the port is in use, or other machines could reach the server and --expose
            is not given.

    Examples:
        hpo ui                                   all studies in mlflow.db, or in MLFLOW_TRACKING_URI
        hpo ui digits                            the trials of one study, best first, with charts
        hpo ui digits reviews                    the trials of both studies, and the studies side by side
        hpo ui digits --optuna                   the same study in optuna-dashboard, from its record
        hpo ui --password                        with a password, on a machine that has other users
        hpo ui --host 10.0.0.5 --expose          other machines can read and delete runs without a password
    """
    names = list(dict.fromkeys([*studies, *filter(None, [study])]))
    if not 1 <= port <= 65535:
        raise TrackError(f"--port: must be 1 to 65535, given {port}; leave it out to use port 5000")
    if optuna:
        refuse_without_effect({"--password": password, "--uri": uri}, "with --optuna, which shows the study's record")
        if len(names) != 1:
            raise TrackError(f"--optuna: must have one study, given {len(names)}; give --study NAME")
    _refuse_exposure(host, port, expose, password, optuna)
    address = _ServerAddress(host, port, browser)
    return _record_server(names[0], address) if optuna else _mlflow_server(names, uri, address, expose, password)


def _refuse_exposure(host: str, port: int, expose: bool, password: bool, optuna: bool) -> None:
    """Refuse an address that other machines can reach; with --expose, print a warning instead."""
    from hpo.track.servers import LOOPBACK

    if host in LOOPBACK:
        refuse_without_effect({"--expose": expose}, f"with --host {host}, which other machines cannot reach")
        return
    rights = f"the password for port {port} is sent unencrypted"
    if not password:
        allowed = "read the study" if optuna else "read, change and delete all runs and models"
        rights = f"everyone who reaches port {port} can {allowed}, without a password"
    if not expose:
        raise TrackError(f"--host: other machines can reach {host}: {rights}; give --expose to allow this")
    say(f"warning: exposed on {host}: {rights}")


@dataclass(frozen=True)
class _ServerAddress:
    """The address that a server listens on, and whether to open it in a browser."""

    host: str
    port: int
    in_browser: bool

    @property
    def address(self) -> str:
        name = socket.gethostname() if self.host in ("0.0.0.0", "::") else self.host
        return f"http://{f'[{name}]' if ':' in name else name}:{self.port}"

    def refuse_taken_port(self) -> None:
        try:
            with socket.socket(socket.AF_INET6 if ":" in self.host else socket.AF_INET) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind((self.host, self.port))
        except OSError as error:
            place = f"{self.host}:{self.port}"
            raise TrackError(f"ui: cannot listen on {place}: {error.strerror or error}; give another --port") from error

    def server(self, pages: "Sequence[Page]", at: str = "") -> Server:
        """Return a `Server`: `address` is the first page's address, and `pages` has the other pages' addresses.

        `at` is the base address of all pages; empty = `self.address`.
        """
        base = at or self.address
        redacted = hide_secrets(base, {})
        first, *further = pages
        if first.what:
            say(f"note: {first.what}")
        others = {page.what: f"{redacted}/{page.address}" for page in further}
        opens = f"{base}/{first.address}" if self.in_browser else ""
        return Server(f"{redacted}/{first.address}", others, _opens=opens)


def say(text: str) -> None:
    """Print a line of text on standard error."""
    sys.stderr.write(f"{text}\n")


def _mlflow_server(
    names: Sequence[str], uri: str | None, place: _ServerAddress, expose: bool, password: bool
) -> Server:
    from hpo.track import servers, store

    if password:
        servers.refuse_bad_password()
    of_environment = None if names or uri else os.environ.get(MLFLOWS_OWN["uri"])
    at, tracked = _tracked(names, uri) if names else (uri or of_environment or _DEFAULT_URI, [])
    if not tracked and store.is_missing(at):
        raise TrackError(f"ui: {at} has no runs yet; start a search with `hpo search`")
    if of_environment:
        say(f"MLflow: {hide_secrets(at, {})} ({MLFLOWS_OWN['uri']})")
    if at.startswith(("http://", "https://")):
        # An MLflow server has its own UI.
        given = {"--password": password, "--expose": expose}
        given |= {"--host": place.host not in servers.LOOPBACK, "--port": place.port != 5000}
        refuse_without_effect(given, f"on {hide_secrets(at, {})}, because the MLflow server there shows its own UI")
        return place.server(_pages(at, tracked), at.rstrip("/"))
    if not password and (process := servers.serving(place.host, place.port, {servers.STORE: at})) is not None:
        say(f"note: process {process} serves this store already, at {place.address}")
        return place.server(_pages(at, tracked))
    place.refuse_taken_port()
    if not password and not expose:
        say(_LOCAL_USERS_NOTE.format(port=place.port))
    say("starting MLflow ...")
    # Prepare the command first, because reading the store for `_pages` sets environment variables of MLflow.
    (command, environment), pages = servers.mlflow_server(at, place.host, place.port), _pages(at, tracked)
    with contextlib.ExitStack() as stack:
        login = None
        if password:
            command += ["--app-name", "basic-auth"]
            login, variables = stack.enter_context(servers.asking_for_a_password())
            environment |= variables
        child = stack.enter_context(servers.running(command, environment, place.host, place.port))
        if (code := child.poll()) is not None:
            raise TrackError(f"ui: MLflow's server ended with exit code {code}; see its output above")
        server = place.server(pages)
        return replace(server, login=login, _wait=until_interrupted(child.wait), _close=stack.pop_all().close)


def _record_server(name: str, place: _ServerAddress) -> Server:
    """Return an optuna-dashboard server for a study's record."""
    from hpo.track.addresses import Page
    from hpo.track.servers import application_server, load_dashboard

    dashboard = load_dashboard()
    _, url, number, _ = _record(name)
    place.refuse_taken_port()
    server = application_server(dashboard(url), place.host, place.port)
    pages = [Page(f"dashboard/studies/{number}")]
    wait = until_interrupted(server.serve_forever)
    return replace(place.server(pages), _wait=wait, _close=server.server_close)


def until_interrupted(serve: Callable[[], int | None]) -> Callable[[], int]:
    """Return a function that calls `serve` and returns the exit code.

    The code is 0 after Ctrl-C, because users normally end a server by Ctrl-C.
    """

    def wait() -> int:
        try:
            return serve() or 0
        except KeyboardInterrupt:
            sys.stderr.write("\n")
            return 0

    return wait


def _tracked(names: Sequence[str], given: str | None) -> "tuple[str, list[TrackedStudy]]":
    """Return the MLflow store of these studies, and the data that identify each study in the store."""
    from hpo.track.addresses import TrackedStudy
    from hpo.track.make import tracking_uri
    from hpo.track.store import refuse_unsent

    found, uris = [], {}
    for name in names:
        config, _, _, notes = _record(name)
        if given is None and config.track.name == "none":
            raise TrackError(
                f"--study: '{name}' has no MLflow store, because the study has track=none; send the study to MLflow "
                f"with `hpo sync {name}`, then give the address of that MLflow by --uri"
            )
        uri = given or tracking_uri(config)
        uris[uri] = name
        refuse_unsent(uri, notes["id"], name)
        found.append(TrackedStudy(Path(name).name, notes["id"], config.study.metric, config.study.direction))
    if len(uris) > 1:
        stores = ", ".join(f"'{name}' in {hide_secrets(uri, {})}" for uri, name in uris.items())
        raise TrackError(
            f"study: all studies must be in one MLflow store, given {stores}; send all studies to one store with "
            f"`hpo sync STUDY track.uri=URI`, then give the address of that store by --uri"
        )
    return uri, found


def _pages(uri: str, studies: "Sequence[TrackedStudy]") -> "list[Page]":
    """Return the pages of a store for these studies, or for all studies if none are given."""
    from hpo.track.addresses import pages_of_all, pages_of_several, pages_of_study

    if not studies:
        return pages_of_all(uri)
    return pages_of_study(uri, studies[0]) if len(studies) == 1 else pages_of_several(uri, studies)


def _record(study: str) -> "tuple[StudyConfig, str, int, Mapping[str, Any]]":
    """Return a study's configuration, the URL of its record, and the study's number and notes in the record."""
    from hpo.study.files.folder import find_study
    from hpo.trials.record.storage import look_up

    folder = find_study(study)
    config = folder.config()
    url = folder.storage_url(config)
    return config, url, *look_up(url, config.study.name)


def open_ui(
    study: str | PathLike[str] | Sequence[str | PathLike[str]] | None = None,
    *,
    port: int = 5000,
    uri: str | None = None,
    optuna: bool = False,
    host: str | None = None,
    expose: bool = False,
    password: str | None = None,
) -> Server:
    """Start the MLflow UI on the loopback address, as `hpo ui` does, and return when the UI answers.

    The UI runs in a separate process, because reading MLflow's store changes environment variables of the process.

    Args:
        study: the study (a `Study`, a name or a folder), or a list of studies, to open; None = all studies.
        port: the port to listen on.
        uri: the MLflow store; None = the study's store, else MLFLOW_TRACKING_URI or sqlite:///mlflow.db.
        optuna: show the study's record in optuna-dashboard instead.
        host: another address to listen on; needs `expose`.
        expose: allow access from other machines.
        password: the password, 12 characters or more; None = no password. The user name is MLFLOW_TRACKING_USERNAME, or
            `hpo` without this environment variable.

    Raises:
        TrackError: the server cannot start, for example because there are no runs yet, or the port is in use.
    """
    flags = {"--optuna": optuna, "--expose": expose, "--password": password is not None}
    options = {"--uri": uri, "--port": port, "--host": host}
    words = [flag for flag, is_set in flags.items() if is_set]
    words += [f"{option}={value}" for option, value in options.items() if value is not None]
    words += map(name_or_path, study or () if isinstance(study, list | tuple | None) else [study])
    environment = {} if password is None else {"MLFLOW_TRACKING_PASSWORD": password}
    return started(["ui", *words], environment)


# An option outside of backticks; text in backticks is a command line.
_OPTION = re.compile(r"`[^`]*`|(?<![\w-])--(\w[\w-]*)")


def started(words: Sequence[str], environment: Mapping[str, str]) -> Server:
    """Start a serving command of `hpo` in another process; end that process when this process ends.

    If the command fails, raise TrackError with the command's error.
    """
    process = subprocess.Popen(
        python("hpo.cli.tied", *words, "--no-browser", "--json"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=os.environ | environment,
    )

    def close() -> None:
        with process:  # Closes the pipe, and waits for the end; allowed more than once.
            process.terminate()

    # The command prints its result once the page answers.
    result = json.loads(next(iter(process.stdout or ()), "{}"))
    if "address" not in result:
        process.communicate()
        error = result.get(
            "error", f"`hpo {words[0]}` ended with exit code {process.returncode}; run this command to read why"
        )
        raise TrackError(_OPTION.sub(lambda found: found[1] or found[0], error))
    atexit.register(close)
    return Server(**result, _wait=process.wait, _close=close)
