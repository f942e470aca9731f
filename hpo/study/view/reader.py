"""A study looked at again and again by one who does not run it: in its folder, or in its mirror."""

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

# Of a mirror, what is looked at.
_COPIED = (
    *("config.yaml", "environment.json", "described.json", "study.db", "status.json", "running.json"),
    *("report.json", "test.json"),
)
_TRIES = 3
# While a study's folder is waited for.
_SECONDS_BETWEEN_TRIES = 0.1


@dataclass(frozen=True)
class Snapshot:
    """What was seen: the status, the tasks under way; of a mirror, when that was written, and why it cannot be read."""

    status: Status
    tasks: list[RunningTask]
    copied: str = ""
    fault: str = ""


class StudyReader:
    """A study in its folder. `reference` is what commands call it, `seconds` the least time between two looks."""

    seconds = 1.0

    def __init__(self, folder: StudyFolder, reference: str) -> None:
        self.folder, self.reference = folder, reference
        self._seen: StudyRun | None = None

    def snapshot(self) -> Snapshot:
        """Return what is there now; StudyError where a mirror cannot be reached."""
        return Snapshot(latest_status(self.folder), read_running(self.folder))

    def study(self) -> StudyRun:
        """Return the study with its trials of now, a mirror's as of the last look; StudyError where that cannot be."""
        if self.folder.is_starting:
            raise StudyError(f"study: '{self.reference}' is just starting, and has no trial yet; see it again later")
        if self._seen is None:
            self._seen = StudyRun.read(self.folder)
        elif self._seen.record.read_again():
            # What was worked out from the trials before is left behind.
            self._seen = replace(self._seen)
        return self._seen

    def view(self, snapshot: Snapshot | None = None) -> StudyView:
        """Return all that is known of the study as of a look, or now.

        StudyError where a mirror cannot be reached, or a link leads out of the folder.
        """
        snapshot = snapshot or self.snapshot()
        self.folder.refuse_links()
        name, copied, fault = self.reference, snapshot.copied, snapshot.fault or None
        try:
            return view_of(self.study(), snapshot.status, snapshot.tasks, reference=name, copied=copied, fault=fault)
        except HpoError as error:
            # One that is just starting cannot be read yet.
            fault = fault or (None if snapshot.status.phase == "starting" else first_line(error))
            view = view_of_status(self.folder, snapshot.status, reference=name, copied=copied, fault=fault)
            return replace(view, next=[*next_steps(view, None, self.folder)])

    def follow(self) -> Iterator[Snapshot]:
        """Yield a look again and again, until nothing more comes: that is the last.

        StudyError where a process that was starting the study has ended before it created it.
        """
        is_starting = False
        while True:
            snapshot = self.snapshot()
            if is_starting and not self.folder.exists and snapshot.status.holder is None:
                raise StudyError(
                    f"study: '{self.reference}' was not begun: the process that was starting it has ended; see what it "
                    f"said, and start it again"
                )
            is_starting = snapshot.status.phase == "starting"
            yield snapshot
            if not snapshot.status.goes_on:
                return
            time.sleep(self.seconds)

    def wait_until_created(self, tell: Callable[[str], None]) -> None:
        """Return once the study exists, `tell` that it is starting before that; StudyError as `follow`."""
        if self.folder.is_starting:
            status = self.snapshot().status
            tell(f"study {status.name}: {status.words}")
            next((snapshot for snapshot in self.follow() if snapshot.status.phase != "starting"), None)


class MirrorReader(StudyReader):
    """A study at a URL, as of its last copy, which lies in a folder for a while; its process may be dead."""

    seconds = 10.0

    def __init__(self, url: str, folder: StudyFolder) -> None:
        self._store = UrlStore(url, "study")
        super().__init__(folder, self._store.place.url)
        self._have: dict[str, str] = {}
        self._last: Snapshot | None = None

    def snapshot(self) -> Snapshot:
        """Fetch what has changed since the last look, which is returned again where the mirror cannot be reached."""
        try:
            self._last = self._look()
        except StudyError as error:
            if self._last is None:
                raise
            self._last = replace(self._last, fault=str(error))
        return self._last

    def _look(self) -> Snapshot:
        copied = self._fetch()
        path, running = self.folder.status_path, self.folder.running_path
        if not path.exists():
            return Snapshot(latest_status(self.folder), [], copied)
        status = parse_status(path.read_text(encoding="utf-8"), f"{self.reference}/{path.name}")
        is_running = status.state == "running" and running.exists()
        return Snapshot(status, parse_running(running.read_text(encoding="utf-8"), "") if is_running else [], copied)

    def _fetch(self) -> str:
        for left in reversed(range(_TRIES)):
            manifest = Manifest.at(self._store.place)
            if manifest is None:
                raise StudyError(f"study: there is no copy of a study at {self.reference}; see study.mirror")
            try:
                for name in _COPIED:
                    self._fetch_file(name, manifest.files.get(name))
            except StudyError:
                # A newer copy has removed it meanwhile.
                if not left:
                    raise
            else:
                return manifest.written
        raise AssertionError

    def _fetch_file(self, name: str, digest: str | None) -> None:
        path = self.folder.path / name
        if digest is None:
            path.unlink(missing_ok=True)
        elif self._have.get(name) != digest:
            if not self._store.get(digest, path):
                raise StudyError(f"study: {name} at {self.reference} is damaged; copy the study there again")
            self._have[name], self._seen = digest, None


@contextmanager
def open_reader(study: str, patience_seconds: float = 0.0) -> Iterator[StudyReader]:
    """Yield the view of a study, by its name under `runs/`, its folder, or its mirror's URL; StudyError without one.

    One whose folder is not there yet is waited for so many seconds: its search may have begun a moment ago.
    """
    if "://" not in study:
        folders, until = [*map(StudyFolder, (RUNS / study, Path(study)))], time.monotonic() + patience_seconds
        while time.monotonic() < until and not any(each.exists or each.is_starting for each in folders):
            time.sleep(_SECONDS_BETWEEN_TRIES)
        yield StudyReader(next((folder for folder in folders if folder.is_starting), None) or find_study(study), study)
        return
    with TemporaryDirectory(prefix="hpo-view-") as scratch:
        yield MirrorReader(study, StudyFolder(Path(scratch)))
