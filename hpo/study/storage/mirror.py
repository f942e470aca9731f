"""Writes, deletes and restores mirrors. A mirror is a study's copy at a URL.

Any machine can continue the study from its mirror.

A mirror consists of `manifest.json` (see `Manifest`) and `files/`. In `files/`, the name of a file is its SHA-256.
The manifest is written after the files, so an interrupted copy leaves the previous copy complete.
"""

import json
import logging
import os
import tempfile
import uuid
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from hpo.config.documents import parse_json
from hpo.config.study_config import StudyConfig, study_name
from hpo.errors import HpoError, StudyError
from hpo.files import entries, write_atomically
from hpo.place import Place
from hpo.study.files.folder import RUNS, StudyFolder
from hpo.study.upgrade import FORMAT, upgraded
from hpo.trials.record.own_file import copy_database, read_mark
from hpo.workers.store.url import UrlStore

_log = logging.getLogger(__name__)

_FILE = "manifest.json"
_LEADS_OUT = "study.mirror: %s is a link that leads out of the study's folder, and is not copied"
RECORD = "study.db"
"""The name of the record among the copied files."""
# `contents` leaves out files that can be made again, files that belong to one machine, and the record, which is copied
# separately.
_EXCLUDED = (
    *("data", "driver.lock", "mlflow.lock", "mirrored.txt"),
    *(f"{RECORD}{suffix}" for suffix in ("", "-wal", "-shm", ".backup", ".mark")),
)


def study_id_of(folder: StudyFolder, config: StudyConfig | None) -> str | None:
    """Return the id of the study in a folder; None if neither the file study.db.mark nor the record has an id."""
    mark = read_mark(folder.database_path)
    if mark is not None or config is None:
        return mark.study_id if mark else None
    # Import late: this takes a third of a second and is rarely needed, because only a study from elsewhere has no mark.
    from hpo.trials.record.record import LAST
    from hpo.trials.record.storage import look_up

    noted_id = None
    with suppress(HpoError):
        noted_id = look_up(folder.storage_url(config), config.study.name)[1].get(LAST)
    return noted_id if isinstance(noted_id, str) else None


class NotOursError(StudyError):
    """The files at a URL must not be overwritten: they belong to another study or folder, or are no valid copy."""


def _check_inside(name: str) -> str:
    # Normalized names only: `a/./b` and `a/b` would be the same file.
    if os.path.normpath(name) != name or PurePosixPath(name).parts[:1] in ((), ("..",), ("/",), ("//",)):
        raise ValueError("must be a path inside the study's folder")
    return name


def _check_complete(files: dict[str, str]) -> dict[str, str]:
    if "config.yaml" not in files:
        raise ValueError("must contain config.yaml")
    return files


# No control characters, because messages print these values at a terminal.
_Printable = Annotated[str, Field(pattern=r"^[^\p{C}\p{Zl}\p{Zp}]*$")]
_Name = Annotated[str, AfterValidator(_check_inside)]
_Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class Manifest(BaseModel):
    """The manifest of a mirror or an archive.

    Attributes:
        format: the format number; see `hpo.study.upgrade`.
        name, study_id: the study's name and id.
        files: the SHA-256 of each file, by path.
        links: the target of each link, by the link's path; targets are relative to the link's folder.
        folders: the paths of all folders.
        id: the unique id of this copy; empty in an archive.
        generation: the number of copies written to this mirror so far, including this one; 0 in an archive.
        writer: the machine and folder of the original.
        written: the time of the copy.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")

    format: int = FORMAT
    name: _Printable
    study_id: _Printable
    files: Annotated[dict[_Name, _Digest], AfterValidator(_check_complete)]
    links: dict[_Name, Annotated[str, Field(min_length=1)]]
    folders: list[_Name]
    id: _Printable
    generation: int
    writer: _Printable
    written: _Printable

    @classmethod
    def at(cls, place: Place) -> "Manifest | None":
        """Return the manifest at a mirror's URL; None if there is no manifest.

        Raises:
            NotOursError: this version cannot read the manifest's format or fields.
            HpoError: the manifest is not JSON, or the study's name in the manifest is not valid.
        """
        content = place.read(_FILE)
        if content is None:
            return None
        where = f"{place.url}/{_FILE}"
        written = parse_json(content.decode(errors="replace"), where)
        try:
            manifest = cls.model_validate(upgraded("mirror", written, where))
        except StudyError as error:
            raise NotOursError(str(error)) from error
        except (ValidationError, TypeError, AttributeError) as error:
            raise _unreadable_error(place) from error
        study_name(manifest.name, f"{where}: name")
        return manifest


def _unreadable_error(place: Place) -> NotOursError:
    return NotOursError(f"{place.url}: has no copy of a study that this version can read; give another URL")


def refuse_another(manifest: Manifest | None, study_id: str | None, folder: StudyFolder, place: Place) -> None:
    """Raise NotOursError if the copy at a URL was made from another study, or from the same study in another folder.

    The file mirrored.txt in a study's folder lists the ids of the latest copies: copies made from this folder, and the
    copy from which this folder was restored. If the manifest's id is not in the file, the copy was made from another
    folder. If the file has no ids, accept every id.
    """
    if manifest is not None and manifest.study_id != study_id:
        raise NotOursError(
            f"study.mirror: {place.url} has another study, '{manifest.name}'; give another URL, or continue that "
            f"study with `hpo resume {place.url}`"
        )
    known = {line.split()[0] for line in _noted_copies(folder)}
    if manifest is not None and known and manifest.id not in known:
        raise NotOursError(
            f"study.mirror: {manifest.writer} has continued this study, and wrote copy {manifest.generation} to "
            f"{place.url} at {manifest.written}; continue that copy with `hpo resume {place.url}` in another folder, "
            f"or give another study.mirror"
        )


def _note_copies(folder: StudyFolder, url: str, ids: Sequence[str]) -> None:
    """Write a line `ID URL` per copy to mirrored.txt, in place of the older lines with this URL."""
    others = [line for line in _noted_copies(folder) if line.partition(" ")[2] != url]
    lines = [*others, *(f"{copy} {url}" for copy in ids if copy)]
    write_atomically(folder.mirrored_path, "".join(f"{line}\n" for line in lines))


def _noted_copies(folder: StudyFolder) -> list[str]:
    path = folder.mirrored_path
    lines = path.read_text(errors="replace").splitlines() if path.exists() else []
    return [line for line in lines if line.strip()]


class Mirror:
    """A study's mirror at a URL: `copy` writes the study's current files there, and `remove` deletes the mirror."""

    def __init__(self, url: str, folder: StudyFolder, name: str, study_id: str) -> None:
        self._store = UrlStore(url, "study.mirror")
        self._folder, self._name, self._study_id = folder, name, study_id
        self._warned: set[str] = set()

    def copy(self) -> None:
        """Update the study's copy at the URL.

        Raises:
            StudyError: the URL cannot be written, or its copy was made from another study or another folder.
        """
        self._own_manifest()
        stored = self._store.digests()
        with tempfile.TemporaryDirectory(prefix="hpo-mirror-") as scratch:
            files, links, folders = contents(self._folder, self._warned)
            sent: dict[str, str] = {}
            record = copy_database(self._folder.database_path, Path(scratch, RECORD))
            for name, path in ({RECORD: record} | files).items():
                # A file may be deleted at the same time, such as a model that is no longer among the best.
                with suppress(FileNotFoundError):
                    sent[name] = self._store.put(path.read_bytes(), stored)
        # Check again: another machine may have written while the files were sent.
        before = self._own_manifest()
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
        # Note both ids before writing, so that the copy at the URL counts as this folder's own even if the process dies
        # before or after the write.
        _note_copies(self._folder, self._store.place.url, [before.id if before else "", manifest.id])
        self._store.place.write(_FILE, [json.dumps(manifest.model_dump(), indent=1).encode()])
        now = self._own_manifest()
        for digest in stored - set(sent.values()) - set(now.files.values() if now else ()):
            self._store.remove(digest)

    def remove(self) -> bool:
        """Delete the copy at the URL, and return whether there was a copy.

        Raises:
            StudyError: the URL cannot be written, or its copy was made from another study or another folder.
        """
        if self._own_manifest() is None:
            return False
        # Delete the manifest first: a manifest without its files would be a damaged copy.
        self._store.place.remove(_FILE)
        for digest in self._store.digests():
            self._store.remove(digest)
        return True

    def _own_manifest(self) -> Manifest | None:
        """Return the manifest at the URL, or None. Raise NotOursError if `refuse_another` refuses the manifest."""
        manifest = Manifest.at(self._store.place)
        refuse_another(manifest, self._study_id, self._folder, self._store.place)
        return manifest


def contents(folder: StudyFolder, warned: set[str]) -> tuple[dict[str, Path], dict[str, str], list[str]]:
    """Return three values: the files to copy, by name; the targets of links, by name; and the folders' names.

    Skip the record, and links that lead out of the study's folder. Warn about a link only once: add it to `warned`.
    """
    files, links, folders = dict[str, Path](), dict[str, str](), list[str]()
    for entry in entries(folder.path):
        if _is_excluded(PurePosixPath(entry.name)):
            continue
        if entry.kind == "folder":
            folders.append(entry.name)
        elif entry.kind == "link" and entry.target is None:
            if entry.name not in warned:
                _log.warning(_LEADS_OUT, entry.name)
            warned.add(entry.name)
            continue
        elif entry.kind == "link":
            links[entry.name] = entry.target or ""
        elif entry.path.is_file():
            files[entry.name] = entry.path
    return files, links, folders


def restore(url: str, runs: Path = RUNS) -> StudyFolder:
    """Copy the study from a mirror's URL into a folder under `runs`, and return the folder.

    Raises:
        StudyError: the URL has no copy of a study, the copy is damaged, or the folder already exists.
    """
    store = UrlStore(url, "study")
    manifest = Manifest.at(store.place)
    if manifest is None:
        raise StudyError(f"study: there is no copy of a study at {store.place.url}; give the URL of a study.mirror")
    folder = StudyFolder(runs / manifest.name)
    if folder.path.exists():
        raise StudyError(
            f"study: {folder} already exists; continue the study with `hpo resume {manifest.name}`, or move the folder "
            f"away"
        )
    runs.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{manifest.name}-", dir=runs) as scratch:
        temporary = StudyFolder(Path(scratch, "study"))
        temporary.path.mkdir(mode=0o700)
        try:
            _write_files(manifest, store, temporary)
        except (OSError, ValueError) as error:
            # The manifest's names are invalid or contradict each other.
            raise _unreadable_error(store.place) from error
        temporary.refuse_links()
        _note_copies(temporary, store.place.url, [manifest.id])
        temporary.path.rename(folder.path)
    return folder


def _write_files(manifest: Manifest, store: UrlStore, folder: StudyFolder) -> None:
    for file, digest in manifest.files.items():
        path = folder.inside(file)
        path.parent.mkdir(parents=True, exist_ok=True)
        if not store.get(digest, path):
            raise StudyError(f"study: {file} at {store.place.url} is damaged; copy the study to this URL again")
    # Make links after the files, so that no file is written through a link.
    for name in manifest.folders:
        folder.inside(name).mkdir(parents=True, exist_ok=True)
    for name, target in manifest.links.items():
        link = folder.inside(name)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(target)


def _is_excluded(name: PurePosixPath) -> bool:
    """Return whether `contents` leaves out a file or folder, because it is temporary or in `_EXCLUDED`.

    A hidden file or folder counts as temporary if it is directly in the study's folder, or directly in one of its
    subfolders. If a folder is left out, all of its contents are left out.
    """
    # Deeper hidden files belong to states and models.
    is_temporary = any(part.startswith(".") for part in name.parts[:2])
    return is_temporary or name.parts[0] in _EXCLUDED
