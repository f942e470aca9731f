"""Servers beside a script or a notebook: `hpo.open_ui`, the MLflow UI, and the live page of a study."""

import atexit
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hpo.errors import TrackError
from hpo.workers.objective.path import python


@dataclass(frozen=True)
class Server:
    """A server that runs until it is closed, or until this process ends.

    Attributes:
        address: to open in a browser.
    """

    address: str
    _process: subprocess.Popen[str]

    def close(self) -> None:
        """End it."""
        _end(self._process)

    def _repr_html_(self) -> str:
        return f'<a href="{self.address}" target="_blank">{self.address}</a>'


def open_ui(
    study: str | Sequence[str] | None = None,
    *,
    port: int = 5000,
    uri: str | None = None,
    optuna: bool = False,
    host: str | None = None,
    expose: bool = False,
    password: str | None = None,
) -> Server:
    """Start the MLflow UI on the loopback address, as `hpo ui` does, and return when it answers.

    Args:
        study: whose trials are opened; of several, side by side; None = all studies.
        port: where it listens.
        uri: the store; None = mlflow.db, or where the study is tracked.
        optuna: show the study's record in optuna-dashboard instead.
        host: another address to listen on, which needs `expose`.
        expose: let others in.
        password: let in only who knows it, 12 characters or more, with the user name `hpo`; None = all who reach the
            port.

    Raises:
        TrackError: there are no runs yet, or the port is taken.
    """
    asked = {"--optuna": optuna, "--expose": expose, "--password": password is not None}
    options = {"--uri": uri, "--port": port, "--host": host}
    words = [flag for flag, is_asked in asked.items() if is_asked]
    words += [f"{option}={value}" for option, value in options.items() if value is not None]
    words += [study] if isinstance(study, str) else study or ()
    environment = {} if password is None else {"MLFLOW_TRACKING_PASSWORD": password}
    return Server(*_started(["ui", "--no-browser", *words], environment))


def open_page(study: str, height: int) -> "Page":
    """Start the server of a study's live page, as `hpo watch --page` does, and return when it answers."""
    return Page(*_started(["watch", study, "--page", "--no-browser"], {}), height)


@dataclass(frozen=True)
class Page(Server):
    """The live page of a study, which a notebook shows in the cell."""

    height: int

    def _repr_html_(self) -> str:
        style = f"width: 100%; height: {self.height}px; border: 1px solid #8884"
        return f'<iframe src="{self.address}" style="{style}" title="live page of the study"></iframe>'


def _started(words: Sequence[str], environment: Mapping[str, str]) -> "tuple[str, subprocess.Popen[str]]":
    """Start a command of `hpo` that serves, and return the address that it prints, and its process, ended with this."""
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            python("hpo", *words),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=os.environ | environment,
        )
        # It is printed once the page answers.
        address = next((line.strip() for line in process.stdout or () if line.startswith("http")), "")
        if not address:
            process.wait()
            errors.seek(0)
            raise TrackError(errors.read().strip().rpartition("error: ")[2].removeprefix("--"))
    atexit.register(_end, process)
    return address, process


def _end(process: "subprocess.Popen[str]") -> None:
    process.terminate()
    process.wait()
