"""The dispatcher of a session: it starts no task after a signal, and keeps what each task printed."""

from collections.abc import Sequence

from hpo.config.files import write_atomically
from hpo.engine.dispatch.dispatcher import Dispatcher, Report
from hpo.engine.training.payload import Task
from hpo.session.stopping import SAVING_SECONDS, Stopping
from hpo.study.files.logs import log_name
from hpo.study.study import Study

_LOOK_SECONDS = 0.5


class SessionDispatcher:
    """Passes tasks to a dispatcher, and its reports back; raises Stopped when all trainings have saved their states.

    Args:
        dispatcher: runs the tasks.
        stopping: knows of signals.
        logged: the study whose folder gets what its tasks print; None = nothing is kept.
    """

    def __init__(self, dispatcher: Dispatcher, stopping: Stopping, logged: Study | None = None) -> None:
        self._dispatcher = dispatcher
        self._stopping = stopping
        self._logged = logged
        self._has_ended = False
        self.runs_here, self.slots, self.gpus = dispatcher.runs_here, dispatcher.slots, dispatcher.gpus

    @property
    def now(self) -> float:
        """As the dispatcher's own."""
        return self._dispatcher.now

    def submit(self, task: Task) -> None:
        """Pass the task to the dispatcher; after a signal it is left to `wait`, which lets the others save, to end."""
        if self.runs_here:
            self._stopping.check()
            with self._stopping.raising():
                self._dispatcher.submit(task)
        elif self._stopping.number is None:
            self._dispatcher.submit(task)

    def wait(self, timeout: float | None = None) -> Sequence[Report]:
        """Return what the dispatcher returns; after a signal the outcomes that have arrived, and then raise Stopped."""
        if self.runs_here:
            # A task that is interrupted here has reported nothing yet.
            with self._stopping.raising():
                return self._keep_logs(self._dispatcher.wait(timeout))
        if self._stopping.number is None:
            reports = self._keep_logs(self._dispatcher.wait(min(timeout or _LOOK_SECONDS, _LOOK_SECONDS)))
            if self._stopping.number is None:
                return reports
        reports = () if self._has_ended else self.save_and_end(SAVING_SECONDS)
        self._has_ended = True
        # The signal may have killed the workers, too, which is not a failure of their trials.
        outcomes = [report for report in reports if report.outcome is not None and not report.is_lost]
        if not outcomes:
            self._stopping.check()
        return outcomes

    def save_and_end(self, seconds: float) -> Sequence[Report]:
        """Return what the dispatcher returns."""
        return self._keep_logs(self._dispatcher.save_and_end(seconds))

    def close(self) -> None:
        """Close the dispatcher."""
        self._dispatcher.close()

    def _keep_logs(self, reports: Sequence[Report]) -> Sequence[Report]:
        for report in reports:
            if report.printed and self._logged is not None:
                folder = self._logged.folder.logs_dir
                folder.mkdir(mode=0o700, exist_ok=True)
                name = log_name(report.task.trial, report.task.index, self._logged.layout)
                write_atomically(folder / name, report.printed)
        return reports
