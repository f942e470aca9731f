"""`hpo ui`: open the MLflow UI on this project's runs, on the loopback address."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from hpo.cli.arguments import make_parser
from hpo.errors import TrackError


def run(arguments: Sequence[str]) -> int:
    """Replace this process by the MLflow server."""
    parser = make_parser("ui", __doc__, "  hpo ui --port 5001")
    parser.add_argument("--port", type=int, default=5000, help="where it listens on 127.0.0.1 (5000)")
    parser.add_argument("--uri", default="sqlite:///mlflow.db", help="MLflow store to show (sqlite:///mlflow.db)")
    given = parser.parse_args(arguments)
    if given.uri.startswith("sqlite:///") and not Path(given.uri.removeprefix("sqlite:///")).exists():
        raise TrackError(f"ui: there are no runs yet in {given.uri}; start some with `hpo search`")

    from hpo.track.mlflow_quiet import MLFLOW_ENVIRONMENT

    print(f"http://127.0.0.1:{given.port}", flush=True)
    command = [sys.executable, "-m", "mlflow", "ui", "--backend-store-uri", given.uri]
    command += ["--host", "127.0.0.1", "--port", str(given.port)]
    os.execve(sys.executable, command, os.environ | MLFLOW_ENVIRONMENT)
