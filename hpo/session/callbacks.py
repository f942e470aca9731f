"""What is called when a trial ends on the study's clock: functions of the user's own, and `study.on_trial`."""

import logging
import subprocess
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

# A command that hangs would hold the search up.
_COMMAND_SECONDS = 60.0

Apply = Callable[[UserAction], None]


class Stop(Exception):  # noqa: N818 -- it is no error
    """A callback raises it to end the search, as `study.stop()` does."""


class Steering:
    """What a callback can do to the search that calls it; each action takes effect at once, at its place on the clock.

    Attributes:
        study: the study whose search it is.
    """

    def __init__(self, study: PreparedStudy, record: Record, apply: Apply) -> None:
        self.study, self._record, self._apply = study, record, apply

    def add(self, values: Mapping[str, Any]) -> str:
        """Let a point be tried next, and return what it comes to; HpoError where it is none, or known."""
        add = new_point(self.study, self._record, values)
        self._do(add)
        return added_text(add)

    def retry(self, number: int | None = None) -> str:
        """Let a failed trial be tried again, or all; return what it comes to. StudyError where there is none."""
        adds = retries(self._record, number)
        for add in adds:
            self._do(add)
        return retried_text(adds)

    def end(self) -> None:
        """Let no further trial begin; those that have begun are trained."""
        self._do(End())

    def _do(self, ask: Add | End) -> None:
        self._apply(UserAction(ask, user_name()))


class Callbacks:
    """Calls all of a study's callbacks, in their order; a fault in one is reported once, and ends nothing."""

    def __init__(self, study: PreparedStudy, record: Record) -> None:
        self._study, self._record = study, record
        self._callbacks = list(study.callbacks)
        if study.config.study.on_trial is not None:
            self._callbacks.append(_run_command)
        self._faulty: set[int] = set()

    def __bool__(self) -> bool:
        return bool(self._callbacks)

    def __call__(self, trial: Trial, apply: Apply) -> None:
        """Call them with a trial that has ended; `apply` does what they ask."""
        steering = Steering(self._study, self._record, apply)
        for place, callback in enumerate(self._callbacks):
            try:
                callback(steering, trial)
            except Stop:
                steering.end()
            except Exception as error:  # noqa: BLE001 -- a callback of the user's may raise anything
                if place not in self._faulty:
                    self._faulty.add(place)
                    _log.warning(
                        "the callback %s raised %s at trial %d: %s; the search goes on, and this is said once",
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
    done = subprocess.run(
        words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_COMMAND_SECONDS, check=False
    )
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()[-1:]
        raise RuntimeError(f"it ended with {done.returncode}{': ' if said else ''}{''.join(said)[:300]}")


_run_command.__name__ = "study.on_trial"
