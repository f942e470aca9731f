"""`hpo.open_ui`: the MLflow UI beside a script or a notebook."""

import atexit
import os
import subprocess
import tempfile
from dataclasses import dataclass

from hpo.engine.objective.path import python
from hpo.errors import TrackError


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
        self._process.terminate()
        self._process.wait()

    def _repr_html_(self) -> str:
        return f'<a href="{self.address}" target="_blank">{self.address}</a>'


def open_ui(
    study: str | None = None,
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
        study: whose page is opened; None = all runs.
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
    options = {"--study": study, "--uri": uri, "--port": port, "--host": host}
    words = [flag for flag, is_asked in asked.items() if is_asked]
    words += [f"{option}={value}" for option, value in options.items() if value is not None]
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            python("hpo", "ui", "--no-browser", *words),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=os.environ | ({} if password is None else {"MLFLOW_TRACKING_PASSWORD": password}),
        )
        # It is printed once the page answers.
        address = next((line.strip() for line in process.stdout or () if line.startswith("http")), "")
        if not address:
            process.wait()
            errors.seek(0)
            raise TrackError(errors.read().strip().removeprefix("error: ").removeprefix("--"))
    server = Server(address, process)
    atexit.register(server.close)
    return server
