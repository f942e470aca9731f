"""Updates a study's mirror while its search runs."""

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
    """Copies the study to its mirror after outcomes, at most every `seconds_between` seconds, and again in `close`.

    A thread makes the copies during the search. If copies fail one after another, the thread logs one warning, and the
    search goes on. If the machine is lost, the search continues from the mirror, and repeats about `seconds_between`
    seconds of work.
    """

    seconds_between = 60.0

    def __init__(self, mirror: Mirror) -> None:
        self._mirror = mirror
        self._thread: threading.Thread | None = None
        self._last = time.monotonic()
        self._has_warned = False

    def reported(self, trial: Trial, report: TaskReport) -> None:  # noqa: ARG002 -- the same call as its siblings
        """If the report has an outcome, begin to copy the study to its mirror.

        Begin no copy while another copy is in progress, or until `seconds_between` seconds after the last copy began.
        """
        is_busy = self._thread is not None and self._thread.is_alive()
        if report.outcome is not None and not is_busy and time.monotonic() - self._last >= self.seconds_between:
            self._last = time.monotonic()
            self._thread = threading.Thread(target=self._copy, daemon=True)
            self._thread.start()

    def wait(self) -> None:
        """Wait until the copy in progress has ended."""
        if self._thread is not None:
            self._thread.join()

    def close(self) -> None:
        """Wait until the copy in progress has ended, then copy the final state.

        If the copy of the final state fails, log a warning.
        """
        self.wait()
        try:
            self._mirror.copy()
        except _FAULTS as error:
            later = "; when the mirror can be written, copy the results with `hpo resume`"
            advice = "" if isinstance(error, NotOursError) else later
            _log.warning("%s; the mirror lacks the study's last results%s", error, advice)

    def _copy(self) -> None:
        try:
            self._mirror.copy()
            self._has_warned = False
        except _FAULTS as error:
            if not self._has_warned:
                effect = "without a mirror" if isinstance(error, NotOursError) else "and the next copy has everything"
                _log.warning("%s; the search goes on %s", error, effect)
            self._has_warned = True


def mirror_of(config: StudyConfig, folder: StudyFolder, study_id: str) -> Mirror | None:
    """Return a study's mirror; None = the setting `study.mirror` is empty."""
    return Mirror(config.study.mirror, folder, config.study.name, study_id) if config.study.mirror else None


def copy_test_evaluation(config: StudyConfig, folder: StudyFolder, study_id: str) -> None:
    """After a test evaluation, copy a study to its mirror, if there is a mirror. Log a warning if the copy fails."""
    try:
        if mirror := mirror_of(config, folder, study_id):
            mirror.copy()
    except _FAULTS as error:
        _log.warning("%s; the test result is valid, but a study restored from the mirror will not have it", error)


def refuse_bad_urls(config: StudyConfig, folder: StudyFolder, study_id: str | None) -> None:
    """Raise HpoError if the study cannot use the URL in `study.artifacts` or in `study.mirror`.

    The store at `study.artifacts` must have no states or models if the study is new. The mirror must have no copy of
    another study, and no copy of this study from another folder. An unreachable mirror is not an error. `study_id` is
    None for a new study.
    """
    if config.study.artifacts is not None:
        Place(config.study.artifacts, "study.artifacts")
    if config.artifacts is not None and study_id is None:
        refuse_used(UrlStore(config.artifacts, "study.artifacts"))
    if config.study.mirror is None:
        return
    place = Place(config.study.mirror, "study.mirror")
    try:
        manifest = Manifest.at(place)
    except NotOursError:
        raise
    except StudyError:
        return
    refuse_another(manifest, study_id, folder, place)
