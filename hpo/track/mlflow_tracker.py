"""The driver's end of the MLflow process: turns what happens into messages and never waits for MLflow."""

import json
import os
import queue
import subprocess
import sys
import threading
from pathlib import Path

from hpo.config import TrackSection
from hpo.dispatch.protocol import Report
from hpo.track import messages
from hpo.track.messages import Message
from hpo.track.mlflow_quiet import MLFLOW_ENVIRONMENT
from hpo.trials import TaskGrid, Trial


class MlflowTracker:
    """Sends messages through a queue and a pipe to `hpo.track.mlflow_process`."""

    def __init__(self, settings: TrackSection, metric: str, grid: TaskGrid) -> None:
        self._metric = metric
        self._grid = grid
        arguments = [settings.uri, settings.experiment, str(Path("mlartifacts").absolute())]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "hpo.track.mlflow_process", *arguments],
            stdin=subprocess.PIPE,
            text=True,
            env=os.environ | MLFLOW_ENVIRONMENT,
            # Its own session: a Ctrl-C in the terminal is for the driver, which ends this process by its input.
            start_new_session=True,
        )
        # Unbounded on purpose: a full pipe must never hold up the search, and messages are small.
        self._queue: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._write_lines, daemon=True)
        self._thread.start()

    def send(self, message: Message) -> None:
        """Queue the message."""
        self._queue.put(message)

    def trial_opened(self, trial: Trial) -> None:
        """Open the trial's child run."""
        self.send(messages.open_trial(trial))

    def reported(self, trial: Trial, report: Report) -> None:
        """Send a point of a learning curve."""
        if report.point is not None:
            self.send(messages.curve_point(trial, self._grid.name(report.task.index), report.point))

    def trial_finished(self, trial: Trial) -> None:
        """Close the trial's child run."""
        self.send(messages.close_trial(trial, self._metric, self._grid))

    def close(self) -> bool:
        """End the process's input and wait for it; return whether everything was sent."""
        self._queue.put(None)
        self._thread.join()
        return self._process.wait() == 0

    def _write_lines(self) -> None:
        assert self._process.stdin is not None
        try:
            while (message := self._queue.get()) is not None:
                self._process.stdin.write(json.dumps(message) + "\n")
                if self._queue.empty():
                    self._process.stdin.flush()
            self._process.stdin.close()
        except BrokenPipeError:
            # The process is gone; the record has everything, and close() tells.
            return
