"""Copies a study's folder to a URL: each content once, and last of all the list of what belongs together.

At the URL lie `manifest.json`, see `Manifest`, and `files/`, with the contents by their SHA-256. A copy that is cut off
leaves the manifest before it, and with it a whole study.
"""

import logging
import os
import sqlite3
import tempfile
import uuid
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath

from hpo.engine.store.url import UrlStore
from hpo.study.files.folder import StudyFolder
from hpo.study.mirror.manifest import Manifest, refuse_another, remember
from hpo.tree import entries

_log = logging.getLogger(__name__)

# Written again from their sources, or of one machine alone.
_LEFT_FOLDERS = ("data",)
_RECORD = "study.db"
_LEFT_FILES = (
    *("driver.lock", "mlflow.lock", "mirrored.txt"),
    *(f"{_RECORD}{suffix}" for suffix in ("", "-wal", "-shm", ".backup", ".mark")),
)


class Mirror:
    """Copies one study to one place, again and again."""

    def __init__(self, url: str, folder: StudyFolder, name: str, study_id: str) -> None:
        self._store = UrlStore(url, "study.mirror")
        self._folder = folder
        self._name = name
        self._study_id = study_id
        self._told: set[str] = set()

    def copy(self) -> None:
        """Bring the copy up to date.

        Raises:
            NotOursError: the place holds another study, or another folder has gone on with this one there.
            StudyError: the place cannot be written.
        """
        self._found()
        there = self._store.digests()
        with tempfile.TemporaryDirectory(prefix="hpo-mirror-") as scratch:
            files, links, folders = self._others()
            sent: dict[str, str] = {}
            for name, path in ({_RECORD: self._record(Path(scratch))} | files).items():
                # One may have gone meanwhile, such as a model that is no longer among the best.
                with suppress(FileNotFoundError):
                    sent[name] = self._store.put(path.read_bytes(), there)
        # Sending takes a while, in which another may have written.
        before = self._found()
        manifest = Manifest(
            name=self._name,
            study_id=self._study_id,
            files=sent,
            links=links,
            folders=folders,
            id=uuid.uuid4().hex,
            generation=before.generation + 1 if before else 1,
            writer=f"{os.uname().nodename}:{self._folder.path}",
            written=datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC"),
        )
        # Both, and first: a process that ends before or after it has written knows what is there as its own.
        remember(self._folder, self._store.place.url, [before.id if before else "", manifest.id])
        manifest.write(self._store.place)
        now = self._found()
        for digest in there - set(sent.values()) - set(now.files.values() if now else ()):
            self._store.remove(digest)

    def _found(self) -> Manifest | None:
        """Return what lies at the place, which is this folder's own."""
        found = Manifest.at(self._store.place)
        refuse_another(found, self._study_id, self._folder, self._store.place)
        return found

    def _record(self, scratch: Path) -> Path:
        """Return a whole copy of the record, which goes on being written."""
        with (
            closing(sqlite3.connect(self._folder.database_path)) as source,
            closing(sqlite3.connect(scratch / _RECORD)) as copy,
        ):
            source.backup(copy)
        return scratch / _RECORD

    def _others(self) -> tuple[dict[str, Path], dict[str, str], list[str]]:
        """Return the files, where links lead, and the folders, by their names, without what is left out."""
        files: dict[str, Path] = {}
        links: dict[str, str] = {}
        folders: list[str] = []
        for entry in entries(self._folder.path):
            if _is_left(PurePosixPath(entry.name)):
                continue
            if entry.kind == "folder":
                folders.append(entry.name)
            elif entry.kind == "link" and entry.target is None:
                self._tell_once(entry.name)
                continue
            elif entry.kind == "link":
                links[entry.name] = entry.target or ""
            # A version that knows no links finds a file in the place of one.
            if entry.path.is_file():
                files[entry.name] = entry.path
        return files, links, folders

    def _tell_once(self, name: str) -> None:
        if name not in self._told:
            _log.warning("study.mirror: %s is a link that leads out of the study's folder, and is not copied", name)
        self._told.add(name)


def _is_left(name: PurePosixPath) -> bool:
    """Return whether a file or folder is not copied; what is hidden in a state or a model is the training's own."""
    is_aside = any(part.startswith(".") for part in name.parts[:2])
    return is_aside or name.parts[0] in _LEFT_FOLDERS or str(name) in _LEFT_FILES
