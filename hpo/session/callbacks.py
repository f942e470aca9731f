"""Calls the user's callbacks and the command `study.on_trial` when a trial ends on the study's clock."""

import logging
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

from hpo.config.on_trial import filled
from hpo.errors import first_line
from hpo.machine import user_name
from hpo.study.additions import added_text, new_point, retried_text, retries
from hpo.study.study import PreparedStudy
from hpo.trials.record.record import Record
from hpo.trials.record.user_actions import Add, End, UserAction
from hpo.trials.trial import Trial

_log = logging.getLogger(__name__)

# The time limit of a command, because the search waits for it.
_COMMAND_SECONDS = 60.0

Apply = Callable[[UserAction], None]


class Stop(Exception):  # noqa: N818 -- it is not an error
    """The exception that a callback raises to end the search; `study.stop()` in a callback does the same."""


class Steering:
    """Offers actions to a callback: add a point, retry failed trials, end the search.

    The search calls the callback when the study's clock reaches a trial's end. Each action takes effect at this time on
    the clock.

    Attributes:
        study: the study.
    """

    def __init__(self, study: PreparedStudy, record: Record, apply: Apply) -> None:
        self.study, self._record, self._apply = study, record, apply

    def add(self, values: Mapping[str, Any]) -> str:
        """Add a point to try next, or retry the point's latest trial if it failed. Return a text about the new trial.

        Raise HpoError if the point is invalid, or if the point is already in the study and needs no retry.
        """
        add = new_point(self.study, self._record, values)
        self._act(add)
        return added_text(add)

    def retry(self, number: int | None = None) -> str:
        """Retry the failed trial `number`; None = retry every failed trial. Return a text about the retries.

        Raise StudyError if there is nothing to retry: the trial does not exist, did not fail, or was already retried.
        """
        adds = retries(self._record, number)
        for add in adds:
            self._act(add)
        return retried_text(adds)

    def end(self) -> None:
        """End the search: no further trial begins, and running trials finish their trainings."""
        self._act(End())

    def _act(self, action: Add | End) -> None:
        self._apply(UserAction(action, user_name()))


class Callbacks:
    """Calls a study's callbacks in order. Only the first error of each callback is logged, and the search goes on."""

    def __init__(self, study: PreparedStudy, record: Record) -> None:
        self._study, self._record = study, record
        self._callbacks = list(study.callbacks)
        if study.config.study.on_trial is not None:
            self._callbacks.append(_run_command)
        self._faulty: set[int] = set()

    def __bool__(self) -> bool:
        return bool(self._callbacks)

    def __call__(self, trial: Trial, apply: Apply) -> None:
        """Call the callbacks with an ended trial. `apply` carries out the actions of the callbacks."""
        steering = Steering(self._study, self._record, apply)
        for place, callback in enumerate(self._callbacks):
            try:
                callback(steering, trial)
            except Stop:
                steering.end()
            except Exception as error:  # noqa: BLE001 -- a user's callback may raise anything
                if place not in self._faulty:
                    self._faulty.add(place)
                    _log.warning(
                        "the callback %s raised %s at trial %d: %s; the search goes on, and later errors of this "
                        "callback are not logged",
                        *(getattr(callback, "__name__", repr(callback)), type(error).__name__),
                        *(trial.number, first_line(error)),
                    )


def _run_command(steering: Steering, trial: Trial) -> None:
    study = steering.study
    values = {
        "trial": trial.number,
        "state": trial.state,
        "score": "" if trial.score is None else trial.score,
        "study": study.config.study.name,
        "folder": study.folder.path,
    }
    assert study.config.study.on_trial is not None
    words = filled(study.config.study.on_trial, values)
    # Do not use pipes: the search would wait until the command's children in the background have closed them.
    with tempfile.TemporaryFile() as printed, tempfile.TemporaryFile() as errors:
        process = subprocess.run(
            words, stdin=subprocess.DEVNULL, stdout=printed, stderr=errors, timeout=_COMMAND_SECONDS, check=False
        )
        printed.seek(0)
        errors.seek(0)
        text = (errors.read() or printed.read()).decode(errors="replace")
    if process.returncode:
        last_line = text.strip().splitlines()[-1:]
        raise RuntimeError(
            f"the command ended with exit code {process.returncode}{': ' if last_line else ''}"
            f"{''.join(last_line)[:300]}"
        )


_run_command.__name__ = "study.on_trial"
