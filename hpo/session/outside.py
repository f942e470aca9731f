"""A session of a study that is trained elsewhere: opened, asked and told, and closed with its report."""

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
    """A session with a study's lock, from here until `close`; `asking` asks and tells.

    Args:
        study: a new one or one to be continued.
        seconds: how long to wait for another process that has it.
        is_shown: whether a log has what a search says before it begins, MLflow follows, and `close` writes the report,
            which else is written only where what was told ends the search.

    Raises:
        HpoError: it cannot begin or go on, in one line.
    """

    def __init__(self, study: PreparedStudy, seconds: float = 0.0, is_shown: bool = True) -> None:
        if not study.is_outside:
            raise StudyError(
                f"study: '{study.reference}' is trained here, by `hpo search` or `hpo resume`; its trials are neither "
                f"asked for nor told"
            )
        run_preflight_checks(study.config)
        self._owner = _here()
        study = replace(study, code=code_of(study))
        self.study, self._is_shown, self._tracker = study, is_shown, None
        self._run: StudyRun | None = None
        self._report: WrittenReport | None = None
        with ExitStack() as stack, machine_faults("study: cannot go on", study.folder.path):
            _lock(study, stack, seconds)
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
            keeper = StatusWriter(study, self.record)
            # Once the keeper was left.
            stack.callback(self._conclude, keeper)
            stack.enter_context(keeper)
            if is_shown:
                for note in study.own.notes:
                    _log.warning("%s", note)
                self._tracker = make_tracker(study.config, study.layout, study.folder.path)
            if self._tracker is not None:
                # Here and below, since a command that asks or tells does not wait a second for them.
                from hpo.track.projection import open_in_tracker

                open_in_tracker(study, StudyRun.of(study, self.record), self._tracker)
                observers.append(self._tracker)
            rules = study.rules(notes.imports)
            self._asking: AskAndTell | None = AskAndTell(
                rules, self.record, study.config.study.trials, [*observers, keeper]
            )
            self._stack = stack.pop_all()

    @property
    def asking(self) -> AskAndTell:
        """What asks and tells; StudyError where this is closed, or used elsewhere than in the thread that opened it."""
        self.refuse_elsewhere()
        if self._asking is None:
            raise StudyError(f"study: '{self.study.reference}' is closed in this process; open it again")
        return self._asking

    @property
    def is_over(self) -> bool:
        """Whether no trial is open, and none can be asked for."""
        return not self.asking.open and (self.asking.ended_by is not None or self.study.is_over(self.record))

    def ask(self) -> int:
        """Return the number of a new trial, that of a user's point first; NoTrialError where there is none."""
        asking = self.asking
        for add in queued_points(self.study, self.record):
            asking.add_point(add)
        try:
            return asking.ask().trial
        except NoTrialError as error:
            if asking.ended_by == "trials":
                name, larger = self.study.reference, 2 * self.study.config.study.trials
                goes_on = f"to go on with a larger one: `hpo resume {name} study.trials={larger}`"
                raise NoTrialError(
                    f"{error}; {goes_on} (from Python hpo.open(name={name!r}, trials={larger}))"
                ) from None
            raise

    def add(self, values: Mapping[str, Any]) -> None:
        """Let a point of one's own, or a failed trial's, be asked for next; HpoError where it is none, or known."""
        self.asking.add_point(new_point(self.study, self.record, values), user_name())

    def __reduce__(self) -> NoReturn:
        raise self._elsewhere()

    def refuse_elsewhere(self) -> None:
        """Raise StudyError in another process or thread than the one that opened this."""
        if self._owner != _here():
            raise self._elsewhere()

    def _elsewhere(self) -> StudyError:
        # A forked child would ask from a copy of what is known here, and write over the record of this process.
        name, metrics = self.study.reference, " ".join(f"{name}=VALUE" for name in self.study.goal.names)
        return StudyError(
            f"study: '{name}' is asked and told only in the thread that opened it, in process {self._owner[0]}; give "
            f"others `trial.config` to train with, and tell it there; or close it, and let each use `hpo ask {name}` "
            f"and `hpo tell {name} TRIAL {metrics}`"
        )

    def _conclude(self, keeper: StatusWriter) -> None:
        if self._run is not None:
            keeper.conclude(self._run, self._report)

    def close(self) -> None:
        """Write the report where it is shown, send what the tracker lacks, and give the lock back; once."""
        if self._asking is None:
            return
        self.refuse_elsewhere()
        with self._stack:
            self._stack.callback(setattr, self, "_asking", None)
            self._run = run = StudyRun.of(self.study, self.record)
            has_told = len(run.history) > self._num_ended
            if self._is_shown or (has_told and self.is_over):
                from hpo.report.write import write_report
                from hpo.track.projection import close_in_tracker

                self._report = report = write_report(self.study, run)
                if self._tracker is not None:
                    close_in_tracker(self.study, run, self._tracker, report)
                    if not self._tracker.close():
                        name = self.study.reference
                        _log.warning("MLflow does not have everything: send it later with `hpo sync %s`", name)


def _here() -> tuple[int, int]:
    return os.getpid(), threading.get_ident()


def set_up(study: PreparedStudy) -> str:
    """Create or continue a study that is trained elsewhere, and return the line that says how it goes on."""
    OutsideSession(study, is_shown=False).close()
    name, metrics = study.reference, " ".join(f"{name}=VALUE" for name in study.goal.names)
    return (
        f"study {study.config.study.name}: its trials are asked for and told, and nothing trains here: `hpo ask "
        f"{name}`, then `hpo tell {name} TRIAL {metrics}`; from Python hpo.open(name={study.config.study.name!r})"
    )


def _lock(study: PreparedStudy, stack: ExitStack, seconds: float) -> None:
    until = time.monotonic() + seconds
    while True:
        try:
            stack.enter_context(study.folder.lock())
        except StudyError:
            if time.monotonic() >= until:
                raise
            time.sleep(_SECONDS_BETWEEN_TRIES)
        else:
            return
