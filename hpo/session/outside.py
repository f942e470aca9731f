"""The ask-and-tell session, which opens a study that another program trains, and closes the study with a report."""

import logging
import os
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

from hpo.engine.ask_and_tell import AskAndTell
from hpo.engine.observers import Observer
from hpo.errors import NoTrialError, StudyError
from hpo.machine import machine_faults, user_name
from hpo.session.mirroring import Mirroring, mirror_of, refuse_bad_urls
from hpo.session.preflight import run_preflight_checks
from hpo.session.status_writer import StatusWriter
from hpo.study.additions import new_point, queued_points
from hpo.study.notes import Notes
from hpo.study.opening import code_of, open_study
from hpo.study.results.run import StudyRun
from hpo.study.study import PreparedStudy
from hpo.track.make import make_tracker

if TYPE_CHECKING:
    from hpo.report.write import WrittenReport

_log = logging.getLogger(__name__)
_SECONDS_BETWEEN_TRIES = 0.05


class OutsideSession:
    """An ask-and-tell session, which holds the study's lock until `close`. Use its `asking` to ask and tell.

    Args:
        study: a new or an existing study.
        seconds: how long to wait for another process that holds the lock.
        is_shown: whether to log the notes of the study, send trials to MLflow, and write the report at `close`. If
            False, `close` writes the report only if the session ended the search.

    Raises:
        HpoError: the study cannot begin or continue.
    """

    def __init__(self, study: PreparedStudy, seconds: float = 0.0, is_shown: bool = True) -> None:
        if not study.is_outside:
            raise StudyError(
                f"study: '{study.reference}' has an objective that the toolkit trains, but ask-and-tell needs a study "
                f"that another program trains; use `hpo resume {study.reference}`"
            )
        run_preflight_checks(study.config)
        self._owner = _current_thread()
        study = replace(study, code=code_of(study))
        self.study, self._is_shown, self._tracker = study, is_shown, None
        self._run: StudyRun | None = None
        self._report: WrittenReport | None = None
        with ExitStack() as stack, machine_faults("study: cannot go on", study.folder.path):
            _wait_for_lock(study, stack, seconds)
            if not study.folder.exists:
                refuse_bad_urls(study.config, study.folder, None)
            self.record = open_study(study)
            stack.callback(self.record.close)
            notes, self._num_ended = Notes(self.record), len(self.record.history())
            self.study_id = notes.study_id
            refuse_bad_urls(study.config, study.folder, notes.study_id)
            observers: list[Observer] = []
            if mirror := mirror_of(study.config, study.folder, notes.study_id or ""):
                copying = Mirroring(mirror)
                stack.callback(copying.close)
                observers.append(copying)
            status_writer = StatusWriter(study, self.record)
            # This callback runs after the exit of `status_writer`.
            stack.callback(self._conclude, status_writer)
            stack.enter_context(status_writer)
            if is_shown:
                for note in study.own.notes:
                    _log.warning("%s", note)
                self._tracker = make_tracker(study)
            if self._tracker is not None:
                # Import late, here and below: a command that asks or tells should not wait a second for these modules.
                from hpo.track.projection import open_in_tracker

                open_in_tracker(study, StudyRun.of(study, self.record), self._tracker)
                observers.append(self._tracker)
            rules = study.rules(notes.imports)
            self._asking: AskAndTell | None = AskAndTell(
                rules, self.record, study.config.study.trials, [*observers, status_writer]
            )
            self._stack = stack.pop_all()

    @property
    def asking(self) -> AskAndTell:
        """The ask-and-tell interface. Raises StudyError if the session is closed or was opened by another thread."""
        self.refuse_elsewhere()
        if self._asking is None:
            raise StudyError(f"study: the session of '{self.study.reference}' is closed; open it again")
        return self._asking

    @property
    def is_over(self) -> bool:
        """Whether all trials have ended and no new trial can be asked for."""
        return not self.asking.open and (self.asking.ended_by is not None or self.study.is_over(self.record))

    def ask(self) -> int:
        """Return the number of a new trial; points that users added come first.

        Raise NoTrialError if no trial is left, or if the strategy waits for the results of open trials.
        """
        asking = self.asking
        for add in queued_points(self.study, self.record):
            asking.add_point(add)
        try:
            return asking.ask().trial
        except NoTrialError as error:
            if asking.ended_by == "trials":
                name, larger = self.study.reference, 2 * self.study.config.study.trials
                advice = f"to continue with a larger budget, use `hpo resume {name} study.trials={larger}`"
                raise NoTrialError(
                    f"{error}; {advice} (from Python: hpo.open(name={name!r}, trials={larger}))"
                ) from None
            raise

    def add(self, values: Mapping[str, Any]) -> None:
        """Add a point for the next `ask`. If the point's last trial failed, that trial is retried.

        Raise HpoError if the point is invalid, or if it is already in the study and needs no retry.
        """
        self.asking.add_point(new_point(self.study, self.record, values), user_name())

    def __reduce__(self) -> NoReturn:
        raise self._other_thread_error()

    def refuse_elsewhere(self) -> None:
        """Raise StudyError in a thread or process other than the one that opened the session."""
        if self._owner != _current_thread():
            raise self._other_thread_error()

    def _other_thread_error(self) -> StudyError:
        # A forked child would propose from a copy of this state, and overwrite this process's record.
        name, metrics = self.study.reference, " ".join(f"{name}=VALUE" for name in self.study.goal.names)
        return StudyError(
            f"study: only the thread that opened '{name}', in process {self._owner[0]}, can ask for trials and tell "
            f"results. Pass `trial.config` to other threads and processes, and return their results to that thread. "
            f"Or close the session, and use `hpo ask {name}` and `hpo tell {name} TRIAL {metrics}` in each process."
        )

    def _conclude(self, status_writer: StatusWriter) -> None:
        if self._run is not None:
            status_writer.conclude(self._run, self._report)

    def close(self) -> None:
        """Write the report if `is_shown` or if the session ended the search; close the tracker, and release the lock.

        A second call does nothing.
        """
        if self._asking is None:
            return
        self.refuse_elsewhere()
        with self._stack:
            self._stack.callback(setattr, self, "_asking", None)
            run = StudyRun.of(self.study, self.record)
            has_told = len(run.history) > self._num_ended
            if self._is_shown or (has_told and self.is_over):
                from hpo.report.write import write_report
                from hpo.track.projection import close_in_tracker

                self._report = report = write_report(self.study, run)
                if self._tracker is not None:
                    close_in_tracker(self.study, run, self._tracker, report)
                    if not self._tracker.close():
                        name = self.study.reference
                        _log.warning("MLflow did not receive everything; send the rest later with `hpo sync %s`", name)
            self._run = run


def _current_thread() -> tuple[int, int]:
    return os.getpid(), threading.get_ident()


def set_up(study: PreparedStudy) -> str:
    """Create or continue a study that another program trains, and return a line with the next commands."""
    OutsideSession(study, is_shown=False).close()
    name, metrics = study.reference, " ".join(f"{name}=VALUE" for name in study.goal.names)
    return (
        f"study {study.config.study.name}: another program trains its trials; use `hpo ask {name}`, then `hpo tell "
        f"{name} TRIAL {metrics}`; in Python, use hpo.open(name={study.config.study.name!r})"
    )


def _wait_for_lock(study: PreparedStudy, stack: ExitStack, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while True:
        try:
            stack.enter_context(study.folder.lock())
        except StudyError:
            if time.monotonic() >= deadline:
                raise
            time.sleep(_SECONDS_BETWEEN_TRIES)
        else:
            return
