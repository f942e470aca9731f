"""Keeps what trainings print: a file for each task in the study's folder."""

from collections.abc import Sequence
from pathlib import Path

from hpo.config.files import write_atomically
from hpo.engine.dispatch.dispatcher import Dispatcher, Report
from hpo.engine.training.payload import Task
from hpo.engine.trials.trial import TaskLayout
from hpo.study.logs import log_name


class LogKeeping:
    """A dispatcher that writes what each task printed into a folder before it passes on how the task ended.

    Args:
        dispatcher: runs the tasks.
        folder: for the files; made when there is something to keep.
        layout: the tasks of a trial.
    """

    def __init__(self, dispatcher: Dispatcher, folder: Path, layout: TaskLayout) -> None:
        self._dispatcher = dispatcher
        self._folder = folder
        self._layout = layout
        self.runs_here = dispatcher.runs_here
        self.slots = dispatcher.slots
        self.gpus = dispatcher.gpus

    @property
    def now(self) -> float:
        """As the dispatcher's own."""
        return self._dispatcher.now

    def submit(self, task: Task) -> None:
        """Pass the task to the dispatcher."""
        self._dispatcher.submit(task)

    def wait(self, timeout: float | None = None) -> Sequence[Report]:
        """Return what the dispatcher returns."""
        return self._kept(self._dispatcher.wait(timeout))

    def save_and_end(self, seconds: float) -> Sequence[Report]:
        """Return what the dispatcher returns."""
        return self._kept(self._dispatcher.save_and_end(seconds))

    def _kept(self, reports: Sequence[Report]) -> Sequence[Report]:
        for report in reports:
            if report.printed:
                self._folder.mkdir(mode=0o700, exist_ok=True)
                name = log_name(report.task.trial, report.task.index, self._layout)
                write_atomically(self._folder / name, report.printed)
        return reports

    def close(self) -> None:
        """Close the dispatcher."""
        self._dispatcher.close()
