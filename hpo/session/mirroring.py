"""Keeps a study's mirror up to date while it is searched."""

import logging
import sqlite3
import threading
import time

from hpo.config.study_config import StudyConfig
from hpo.engine.observers import Observer
from hpo.errors import HpoError, StudyError
from hpo.place import Place
from hpo.study.files.folder import StudyFolder
from hpo.study.storage.mirror import Manifest, Mirror, NotOursError, refuse_another
from hpo.trials.trial import Trial
from hpo.workers.dispatch.dispatcher import TaskReport
from hpo.workers.store.url import UrlStore, refuse_used

_log = logging.getLogger(__name__)

_FAULTS = (HpoError, OSError, sqlite3.Error)


class Mirroring(Observer):
    """Copies the study after an outcome, at most once a minute and beside the search, and when it is closed.

    Of a search that is lost with its machine, at most those `seconds_between` have to be done again.
    """

    def __init__(self, mirror: Mirror, seconds_between: float = 60.0) -> None:
        self._mirror, self._seconds_between = mirror, seconds_between
        self._thread: threading.Thread | None = None
        self._last = time.monotonic()
        self._has_warned = False

    def reported(self, trial: Trial, report: TaskReport) -> None:  # noqa: ARG002 -- the same call as its siblings
        """Begin a copy, where it is time and the one before has ended."""
        is_busy = self._thread is not None and self._thread.is_alive()
        if report.outcome is not None and not is_busy and time.monotonic() - self._last >= self._seconds_between:
            self._last = time.monotonic()
            self._thread = threading.Thread(target=self._copy, daemon=True)
            self._thread.start()

    def wait(self) -> None:
        """Wait for the end of a copy that has begun."""
        if self._thread is not None:
            self._thread.join()

    def close(self) -> None:
        """Copy what is there now."""
        self.wait()
        self._copy()

    def _copy(self) -> None:
        try:
            self._mirror.copy()
            self._has_warned = False
        except _FAULTS as error:
            if not self._has_warned:
                then = "is copied nowhere" if isinstance(error, NotOursError) else "the next copy will bring all"
                _log.warning("%s; the search goes on, and %s", error, then)
            self._has_warned = True


def mirror_of(config: StudyConfig, folder: StudyFolder, study_id: str) -> Mirror | None:
    """Return a study's mirror; None where it has none."""
    return Mirror(config.study.mirror, folder, config.study.name, study_id) if config.study.mirror else None


def copy_test_evaluation(config: StudyConfig, folder: StudyFolder, study_id: str) -> None:
    """Copy a study whose test part was opened to its mirror, where it has one; a warning where that cannot be done."""
    try:
        if mirror := mirror_of(config, folder, study_id):
            mirror.copy()
    except _FAULTS as error:
        _log.warning("%s; the test's result stands, but a study restored from there does not know of it", error)


def refuse_bad_urls(config: StudyConfig, folder: StudyFolder, study_id: str | None) -> None:
    """Raise HpoError where `study.artifacts` or `study.mirror` is no URL, or holds what must not be written over.

    A mirror that cannot be reached may come back. A study that is new has no id.
    """
    if config.study.artifacts is not None:
        Place(config.study.artifacts, "study.artifacts")
    if config.artifacts is not None and study_id is None:
        refuse_used(UrlStore(config.artifacts, "study.artifacts"))
    if config.study.mirror is None:
        return
    place = Place(config.study.mirror, "study.mirror")
    try:
        found = Manifest.at(place)
    except NotOursError:
        raise
    except StudyError:
        return
    refuse_another(found, study_id, folder, place)
