"""Reads a study from its folder or from its mirror, even while another process runs the study."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from hpo.errors import HpoError, StudyError, first_line
from hpo.study.files.folder import RUNS, StudyFolder, find_study
from hpo.study.files.status import RunningTask, Status, parse_running, parse_status, read_running
from hpo.study.results.run import StudyRun
from hpo.study.storage.mirror import Manifest
from hpo.study.view.from_status import view_of_status
from hpo.study.view.latest import latest_status
from hpo.study.view.making import view_of
from hpo.study.view.next_steps import next_steps
from hpo.study.view.view import StudyView
from hpo.workers.store.url import UrlStore

# The files to fetch from a mirror.
_FETCHED = (
    *("config.yaml", "environment.json", "described.json", "study.db", "status.json", "running.json"),
    *("report.json", "test.json"),
)
_TRIES = 3
# The time between two checks whether a study's folder exists.
_SECONDS_BETWEEN_TRIES = 0.1


@dataclass(frozen=True)
class Snapshot:
    """The state of a study at one moment.

    Attributes:
        copied: when the mirror was written; None if the study is read from its folder.
        fault: why the mirror cannot be read now; None if there is no such problem.
    """

    status: Status
    tasks: list[RunningTask]
    copied: str | None = None
    fault: str | None = None


class StudyReader:
    """Reads a study in its folder.

    Attributes:
        reference: the argument that names the study in commands. The argument is the study's name, the path of the
            study's folder, or the mirror's URL.
        seconds: how long `follow` waits between two snapshots, in seconds.
    """

    seconds = 1.0

    def __init__(self, folder: StudyFolder, reference: str) -> None:
        self.folder, self.reference = folder, reference
        self._run: StudyRun | None = None

    def snapshot(self) -> Snapshot:
        """Return the current state of the study.

        Raises:
            StudyError: the mirror cannot be reached.
        """
        return Snapshot(latest_status(self.folder), read_running(self.folder))

    def study(self) -> StudyRun:
        """Return the study with its current trials; for a mirror, with the trials of the last snapshot.

        Raises:
            HpoError: the study is just starting, or cannot be read.
        """
        if self.folder.is_starting:
            raise StudyError(f"study: '{self.reference}' is just starting, and has no trial yet; try again later")
        if self._run is None:
            self._run = StudyRun.read(self.folder)
        elif self._run.record.read_again():
            # A new object drops the results that were computed from the earlier trials.
            self._run = replace(self._run)
        return self._run

    def view(self, snapshot: Snapshot | None = None) -> StudyView:
        """Return the view of the study at the time of `snapshot`; if `snapshot` is None, take a new snapshot.

        Raises:
            StudyError: the mirror cannot be reached, or a link in the study's folder points outside the folder.
        """
        snapshot = snapshot or self.snapshot()
        self.folder.refuse_links()
        name, copied, fault = self.reference, snapshot.copied, snapshot.fault
        try:
            return view_of(self.study(), snapshot.status, snapshot.tasks, reference=name, copied=copied, fault=fault)
        except HpoError as error:
            # A starting study has no record yet, which is no fault.
            fault = fault or (None if snapshot.status.phase == "starting" else first_line(error))
            view = view_of_status(self.folder, snapshot.status, reference=name, copied=copied, fault=fault)
            return replace(view, next=[*next_steps(view, None, self.folder)])

    def follow(self) -> Iterator[Snapshot]:
        """Yield a snapshot every `seconds` until the study has ended or was interrupted.

        Raises:
            StudyError: the process that was starting the study ended without creating it.
        """
        is_starting = False
        while True:
            snapshot = self.snapshot()
            if is_starting and not self.folder.exists and snapshot.status.holder is None:
                raise StudyError(
                    f"study: '{self.reference}' was not created: the process that was starting it has ended; read that "
                    f"process's output, and start the study again"
                )
            is_starting = snapshot.status.phase == "starting"
            yield snapshot
            if not snapshot.status.goes_on:
                return
            time.sleep(self.seconds)

    def wait_until_created(self, show: Callable[[str], None]) -> None:
        """If the study is starting, call `show` with the status as a line of text, and wait until the study exists.

        Otherwise, return at once.

        Raises:
            StudyError: as for `follow`.
        """
        if self.folder.is_starting:
            status = self.snapshot().status
            show(f"study {status.name}: {status.words}")
            next((snapshot for snapshot in self.follow() if snapshot.status.phase != "starting"), None)


class MirrorReader(StudyReader):
    """Reads a study from its mirror through a temporary copy, even if the process that ran the study has died."""

    seconds = 10.0

    def __init__(self, url: str, folder: StudyFolder) -> None:
        self._store = UrlStore(url, "study")
        super().__init__(folder, self._store.place.url)
        self._have: dict[str, str] = {}
        self._last: Snapshot | None = None

    def snapshot(self) -> Snapshot:
        """Fetch the mirror's new files, and return the current state; after a failure, the last state and the fault.

        Raises:
            HpoError: there is no previous state, and the fetch fails or a fetched file is not valid.
        """
        try:
            self._last = self._fetch_snapshot()
        except HpoError as error:
            if self._last is None:
                raise
            self._last = replace(self._last, fault=str(error))
        return self._last

    def _fetch_snapshot(self) -> Snapshot:
        copied = self._fetch_files()
        path, running = self.folder.status_path, self.folder.running_path
        if not path.exists():
            return Snapshot(latest_status(self.folder), [], copied)
        status = parse_status(path.read_text(encoding="utf-8"), f"{self.reference}/{path.name}")
        is_running = status.state == "running" and running.exists()
        return Snapshot(status, parse_running(running.read_text(encoding="utf-8"), "") if is_running else [], copied)

    def _fetch_files(self) -> str:
        """Fetch the mirror's files that have changed since the last fetch.

        Return the time of the mirror's latest copy, as text in UTC.
        """
        tries_left = _TRIES
        while True:
            tries_left -= 1
            manifest = Manifest.at(self._store.place)
            if manifest is None:
                raise StudyError(
                    f"study: there is no copy of a study at {self.reference}; give the URL that the study's "
                    f"configuration has as study.mirror"
                )
            try:
                for name in _FETCHED:
                    self._fetch_file(name, manifest.files.get(name))
            except StudyError:
                # A newer copy may have removed the file: try again with its manifest.
                if not tries_left:
                    raise
            else:
                return manifest.written

    def _fetch_file(self, name: str, digest: str | None) -> None:
        path = self.folder.path / name
        if digest is None:
            path.unlink(missing_ok=True)
            self._have.pop(name, None)
        elif self._have.get(name) != digest:
            if not self._store.get(digest, path):
                raise StudyError(f"study: {name} at {self.reference} is damaged; copy the study to this URL again")
            self._have[name], self._run = digest, None


@contextmanager
def open_reader(study: str, patience_seconds: float = 0.0) -> Iterator[StudyReader]:
    """Yield a reader of a study.

    Args:
        study: the study's name under `runs/`, its folder, or its mirror's URL.
        patience_seconds: how long to wait for a folder that does not exist yet; 0 = no wait. The function never waits
            for a URL.

    Raises:
        StudyError: there is no folder of this study. If no study is at a URL, the reader's methods raise this error.
    """
    if "://" not in study:
        folders, deadline = [*map(StudyFolder, (RUNS / study, Path(study)))], time.monotonic() + patience_seconds
        while time.monotonic() < deadline and not any(each.exists or each.is_starting for each in folders):
            time.sleep(_SECONDS_BETWEEN_TRIES)
        yield StudyReader(next((folder for folder in folders if folder.is_starting), None) or find_study(study), study)
        return
    with TemporaryDirectory(prefix="hpo-view-") as scratch:
        yield MirrorReader(study, StudyFolder(Path(scratch)))
