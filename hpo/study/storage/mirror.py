"""A study's copy at a URL, from which it goes on on any machine: each content once, and a manifest.

At the URL lie `manifest.json`, see `Manifest`, and `files/`, with the contents by their SHA-256. A copy that is cut off
leaves the manifest before it, and with it a whole study.
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


def study_id_of(folder: StudyFolder, config: StudyConfig | None) -> str | None:
    """Return the id of the study in a folder; None where neither its mark nor its record says it."""
    mark = read_mark(folder.database_path)
    if mark is not None or config is None:
        return mark.study_id if mark else None
    # Here, since it takes a third of a second: only a study that came from elsewhere has no mark yet.
    from hpo.trials.record.record import LAST
    from hpo.trials.record.storage import look_up

    found = None
    with suppress(HpoError):
        found = look_up(folder.storage_url(config), config.study.name)[1].get(LAST)
    return found if isinstance(found, str) else None


_log = logging.getLogger(__name__)

_FILE = "manifest.json"
_LEADS_OUT = "study.mirror: %s is a link that leads out of the study's folder, and is not copied"
RECORD = "study.db"
"""The name of the record among the files."""
# Written again from their sources, or of one machine alone.
_LEFT = (
    *("data", "driver.lock", "mlflow.lock", "mirrored.txt"),
    *(f"{RECORD}{suffix}" for suffix in ("", "-wal", "-shm", ".backup", ".mark")),
)


class NotOursError(StudyError):
    """A place holds what must not be written over: no study, another, or what another machine has made of this one."""


def _inside(name: str) -> str:
    # One name a place: `a/./b` would be `a/b` too.
    if os.path.normpath(name) != name or PurePosixPath(name).parts[:1] in ((), ("..",), ("/",), ("//",)):
        raise ValueError("must be a name in the folder")
    return name


def _complete(files: dict[str, str]) -> dict[str, str]:
    if "config.yaml" not in files:
        raise ValueError("must hold config.yaml")
    return files


# It is printed at a terminal: no control characters.
_Printable = Annotated[str, Field(pattern=r"^[^\p{C}\p{Zl}\p{Zp}]*$")]
_Name = Annotated[str, AfterValidator(_inside)]
_Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class Manifest(BaseModel):
    """What a mirror holds.

    Attributes:
        files: the SHA-256 of each file by its path.
        format: the number of its form; see `hpo.study.upgrade`.
        links: where links lead by their paths, relative to where they lie.
        id, generation: of this copy alone, and how many were written to its place; of an archive empty, and 0.
        writer, written: the machine and folder that it came from, and when.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")

    format: int = FORMAT
    name: _Printable
    study_id: _Printable
    files: Annotated[dict[_Name, _Digest], AfterValidator(_complete)]
    links: dict[_Name, Annotated[str, Field(min_length=1)]]
    folders: list[_Name]
    id: _Printable
    generation: int
    writer: _Printable
    written: _Printable

    @classmethod
    def at(cls, place: Place) -> "Manifest | None":
        """Return what lies at a place, None where nothing does; NotOursError where that is no mirror."""
        content = place.read(_FILE)
        if content is None:
            return None
        where = f"{place.url}/{_FILE}"
        written = parse_json(content.decode(errors="replace"), where)
        try:
            found = cls.model_validate(upgraded("mirror", written, where))
        except StudyError as error:
            raise NotOursError(str(error)) from error
        except (ValidationError, TypeError, AttributeError) as error:
            raise _unreadable(place) from error
        study_name(found.name, f"{where}: name")
        return found

    def write(self, place: Place) -> None:
        """Put it at a place."""
        place.write(_FILE, [json.dumps(self.model_dump(), indent=1).encode()])


def _unreadable(place: Place) -> NotOursError:
    return NotOursError(f"{place.url}: holds no copy of a study that this version can read")


def refuse_another(found: Manifest | None, study_id: str | None, folder: StudyFolder, place: Place) -> None:
    """Raise NotOursError where a place holds another study, or this one as another folder has gone on with it."""
    if found is not None and found.study_id != study_id:
        raise NotOursError(
            f"study.mirror: {place.url} holds another study, '{found.name}'; give another URL, or go on with that by "
            f"`hpo resume {place.url}`"
        )
    known = {line.split()[0] for line in _copies(folder)}
    if found is not None and known and found.id not in known:
        raise NotOursError(
            f"study.mirror: {found.writer} has gone on with this study, and wrote copy {found.generation} to "
            f"{place.url} at {found.written}; go on from there by `hpo resume {place.url}` in another folder, or give "
            f"another study.mirror"
        )


def _remember(folder: StudyFolder, url: str, ids: Sequence[str]) -> None:
    """Note in the study's folder, by a line `ID URL` each, that these copies are its own, in place of those before."""
    others = [line for line in _copies(folder) if line.partition(" ")[2] != url]
    lines = [*others, *(f"{copy} {url}" for copy in ids if copy)]
    write_atomically(folder.mirrored_path, "".join(f"{line}\n" for line in lines))


def _copies(folder: StudyFolder) -> list[str]:
    path = folder.mirrored_path
    lines = path.read_text(errors="replace").splitlines() if path.exists() else []
    return [line for line in lines if line.strip()]


class Mirror:
    """Copies one study to one place, again and again."""

    def __init__(self, url: str, folder: StudyFolder, name: str, study_id: str) -> None:
        self._store = UrlStore(url, "study.mirror")
        self._folder, self._name, self._study_id = folder, name, study_id
        self._told: set[str] = set()

    def copy(self) -> None:
        """Bring the copy up to date; StudyError where the place cannot be written, or holds what is not its own."""
        self._found()
        there = self._store.digests()
        with tempfile.TemporaryDirectory(prefix="hpo-mirror-") as scratch:
            files, links, folders = contents(self._folder, self._told)
            sent: dict[str, str] = {}
            record = copy_record(self._folder, Path(scratch, RECORD))
            for name, path in ({RECORD: record} | files).items():
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
        _remember(self._folder, self._store.place.url, [before.id if before else "", manifest.id])
        manifest.write(self._store.place)
        now = self._found()
        for digest in there - set(sent.values()) - set(now.files.values() if now else ()):
            self._store.remove(digest)

    def remove(self) -> bool:
        """Delete the copy; return whether there was one. StudyError as of `copy`."""
        if self._found() is None:
            return False
        # First, since a manifest without its contents would be a damaged copy.
        self._store.place.remove(_FILE)
        for digest in self._store.digests():
            self._store.remove(digest)
        return True

    def _found(self) -> Manifest | None:
        """Return this folder's own copy at the place, None where there is none."""
        found = Manifest.at(self._store.place)
        refuse_another(found, self._study_id, self._folder, self._store.place)
        return found


def copy_record(folder: StudyFolder, target: Path) -> Path:
    """Write a whole copy of the record, which may go on being written, as a file; return its path."""
    return copy_database(folder.database_path, target)


def contents(folder: StudyFolder, told: set[str]) -> tuple[dict[str, Path], dict[str, str], list[str]]:
    """Return what is copied of a study besides its record: files, where links lead, and folders, by their names.

    Links that lead out are not copied; those that are not in `told` yet are told, and added to it.
    """
    files, links, folders = dict[str, Path](), dict[str, str](), list[str]()
    for entry in entries(folder.path):
        if _is_left(PurePosixPath(entry.name)):
            continue
        if entry.kind == "folder":
            folders.append(entry.name)
        elif entry.kind == "link" and entry.target is None:
            if entry.name not in told:
                _log.warning(_LEADS_OUT, entry.name)
            told.add(entry.name)
            continue
        elif entry.kind == "link":
            links[entry.name] = entry.target or ""
        elif entry.path.is_file():
            files[entry.name] = entry.path
    return files, links, folders


def restore(url: str, runs: Path = RUNS) -> StudyFolder:
    """Write the study at a URL into its folder under `runs`, and return that; StudyError where that cannot be done.

    What it knows of evaluations of test parts is added to the ledger there, too.
    """
    store = UrlStore(url, "study")
    manifest = Manifest.at(store.place)
    if manifest is None:
        raise StudyError(f"study: there is no copy of a study at {store.place.url}; see study.mirror")
    folder = StudyFolder(runs / manifest.name)
    if folder.path.exists():
        raise StudyError(
            f"study: {folder} is there already; go on with it by `hpo resume {manifest.name}`, or move it away first"
        )
    runs.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{manifest.name}-", dir=runs) as scratch:
        aside = StudyFolder(Path(scratch, "study"))
        aside.path.mkdir(mode=0o700)
        try:
            _write(manifest, store, aside)
        except (OSError, ValueError) as error:
            # Its names cannot be those of files, or not all at once.
            raise _unreadable(store.place) from error
        aside.refuse_links()
        _remember(aside, store.place.url, [manifest.id])
        aside.path.rename(folder.path)
    return folder


def _write(manifest: Manifest, store: UrlStore, folder: StudyFolder) -> None:
    for file, digest in manifest.files.items():
        path = folder.inside(file)
        path.parent.mkdir(parents=True, exist_ok=True)
        if not store.get(digest, path):
            raise StudyError(f"study: {file} at {store.place.url} is damaged; copy the study there again")
    # After the files: none of them is written through a link.
    for name in manifest.folders:
        folder.inside(name).mkdir(parents=True, exist_ok=True)
    for name, target in manifest.links.items():
        link = folder.inside(name)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(target)


def _is_left(name: PurePosixPath) -> bool:
    """Return whether a file or folder is not copied; what is hidden in a state or a model is the training's own."""
    is_aside = any(part.startswith(".") for part in name.parts[:2])
    return is_aside or name.parts[0] in _LEFT
