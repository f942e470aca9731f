"""MLflow's tracking server, with faults: `python -m tests.faults.mlflow_server PORT FOLDER` serves until it is killed.

How it answers stands in the file `mode` of its folder, read at every request: `pass`, `error` (status 500), or
`late SECONDS` (after that long; requests are carried out even where nobody waits for them any more).
"""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from tests.studies import environment
from tests.tracked import new_store


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def serve(port, folder):
    os.environ["MLFLOW_SERVER_ENABLE_JOB_EXECUTION"] = "false"
    from mlflow.server import app, handlers
    from werkzeug.serving import make_server

    # What the command `mlflow server` does before it listens; it takes some seconds more.
    os.environ["_MLFLOW_SERVER_SERVE_ARTIFACTS"] = "true"
    os.environ["_MLFLOW_SERVER_ARTIFACT_DESTINATION"] = (Path(folder) / "artifacts").as_uri()
    handlers.initialize_backend_stores(f"sqlite:///{folder}/mlflow.db", None, "mlflow-artifacts:/")

    def faulty(environ, start):
        mode, _, seconds = (Path(folder) / "mode").read_text().partition(" ")
        if mode == "error":
            start("500 Internal Server Error", [("Content-Type", "text/plain")])
            return [b"out of order"]
        if mode == "late":
            time.sleep(float(seconds))
        return app.wsgi_app(environ, start)

    make_server("127.0.0.1", port, faulty, threaded=True).serve_forever()


class FaultyServer:
    def __init__(self, folder, port):
        self.folder, self.uri = folder, f"http://127.0.0.1:{port}"
        self._command = [sys.executable, "-m", "tests.faults.mlflow_server", str(port), str(folder)]
        self._process = None
        new_store(folder)
        self.set_mode("pass")

    def set_mode(self, mode):
        aside = self.folder / "mode.next"
        aside.write_text(mode)
        aside.replace(self.folder / "mode")

    def start(self):
        silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "start_new_session": True}
        self._process = subprocess.Popen(self._command, cwd=self.folder, env=environment(), **silent)
        end = time.monotonic() + 120
        while not self._answers():
            assert self._process.poll() is None, "the server ended"
            assert time.monotonic() < end, "the server does not start"
            time.sleep(0.2)

    def kill(self):
        if self._process is not None:
            os.killpg(self._process.pid, 9)
            self._process.wait()
            self._process = None

    def _answers(self):
        try:
            with urlopen(f"{self.uri}/health", timeout=5) as answer:
                return answer.status == 200
        except (URLError, OSError):
            return False


if __name__ == "__main__":
    serve(int(sys.argv[1]), sys.argv[2])
