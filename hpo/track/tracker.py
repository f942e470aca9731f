"""The driver's side of the MLflow process: turns events into messages and never waits for MLflow."""

import contextlib
import json
import queue
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path

from hpo.config.study_config import StudyConfig
from hpo.engine.observers import Observer
from hpo.track import messages
from hpo.track.messages import TrackerMessage
from hpo.track.store import mlflow_environment
from hpo.trials.goal import goal_of
from hpo.trials.ranking import front
from hpo.trials.trial import TaskLayout, Trial
from hpo.workers.dispatch.dispatcher import TaskReport
from hpo.workers.objective.path import path_variable, python

# Pause after a failed request to MLflow.
_RETRY_SECONDS = 5.0


class MlflowTracker(Observer):
    """Sends messages through a queue and a pipe to `hpo.track.process`; nothing is read from there."""

    def __init__(self, uri: str, config: StudyConfig, layout: TaskLayout, lock_path: Path | None) -> None:
        self._goal = goal_of(config.study)
        self._scales, self._costs = config.study.scales, config.strategy.get("costs")
        self._front: Sequence[Trial] = ()
        self._layout = layout
        # Of running trials, by number and task.
        self._curves: dict[int, dict[str, messages.Curve]] = {}
        self._process = subprocess.Popen(
            python("hpo.track.process"),
            stdin=subprocess.PIPE,
            text=True,
            env=mlflow_environment() | path_variable(str(Path.cwd())),
            # Its own session: Ctrl-C in the terminal is for the driver, which ends this process by its input.
            start_new_session=True,
        )
        # Unbounded: a full pipe must not delay the search, and messages are small.
        self._queue: queue.SimpleQueue[TrackerMessage | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._write_lines, daemon=True)
        self._thread.start()
        self.send({
            "uri": uri,
            "experiment": config.track.experiment,
            "artifact_root": str(Path("mlartifacts").absolute()),
            "lock_path": str(lock_path.absolute()) if lock_path else None,
            "retry_seconds": _RETRY_SECONDS,
        })  # fmt: skip

    def send(self, message: TrackerMessage) -> None:
        """Queue the message."""
        self._queue.put(message)

    def trial_opened(self, trial: Trial) -> None:
        """Open the trial's child run."""
        self.send(messages.open_trial(trial, self._scales))

    def reported(self, trial: Trial, report: TaskReport) -> None:
        """Send a point of a learning curve."""
        if report.point is not None:
            name = self._layout.name(report.task.index)
            curves = self._curves.setdefault(trial.number, {})
            self.send(curves.setdefault(name, messages.Curve(trial, name)).point(report.point))

    def trial_finished(self, trial: Trial) -> None:
        """Close the trial's child run."""
        self.trial_known(trial)
        if len(self._goal.metrics) > 1:
            # What those on the front dominated before, they dominate now.
            self.show_front(front([*self._front, trial]))

    def trial_known(self, trial: Trial) -> None:
        """Close the trial's child run; whether it is on the front is told by `show_front`."""
        self._curves.pop(trial.number, None)
        self.send(messages.close_trial(trial, self._goal, self._layout, self._costs))

    def show_front(self, members: Sequence[Trial]) -> None:
        """Show which of all finished trials are on the front; with one metric nothing."""
        if len(self._goal.metrics) > 1:
            self._front = members
            self.send(messages.show_front(members))

    def close(self, patience_seconds: float = 60.0) -> bool:
        """Send what is left, until nothing arrives for `patience_seconds`; return whether everything did."""
        self._queue.put({"do": "end", "patience_seconds": patience_seconds})
        self._queue.put(None)
        self._thread.join()
        return self._process.wait() == 0

    def _write_lines(self) -> None:
        assert self._process.stdin is not None
        # If the process is gone, the record has everything, and close() reports it.
        with contextlib.suppress(BrokenPipeError), self._process.stdin as pipe:
            while (message := self._queue.get()) is not None:
                pipe.write(json.dumps(message) + "\n")
                if self._queue.empty():
                    pipe.flush()
