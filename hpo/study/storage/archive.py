"""Writes and unpacks archives of studies.

An archive `NAME.tar.gz` has the files of a study's folder, and a manifest with the SHA-256 of each file.
"""

import gzip
import hashlib
import io
import os
import sqlite3
import tarfile
import tempfile
import zlib
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from hpo.config.documents import parse_json
from hpo.config.study_config import study_name
from hpo.errors import ConfigError, StudyError
from hpo.files import entries
from hpo.study.files.folder import RUNS, StudyFolder
from hpo.study.storage.mirror import RECORD, Manifest, contents, study_id_of
from hpo.study.upgrade import upgraded
from hpo.trials.record.own_file import copy_database
from hpo.workers.store.packing import digest_of

# This member is written last, because the other files are hashed while they are written.
_MANIFEST = "manifest.json"
# Not archived: files of a running search.
_EXCLUDED = ("running.json", "requests")
_DAMAGE = (tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error, ValueError, KeyError, FileNotFoundError)


def archive(folder: StudyFolder, file: Path) -> Manifest:
    """Write a study as an archive, and return the archive's manifest. `file` appears only when it is complete.

    Leave out locks, temporary files, files of a running search, the record's backup, and the workers' copy of the data.

    Raises:
        ConfigError: the file's name does not end in .tar.gz or .tgz.
        StudyError: the study runs, its record is damaged, or a link leads out of its folder.
        StudyError: the archive exists, would be inside the study's folder, or its directory is missing.
    """
    if not file.name.endswith((".tar.gz", ".tgz")):
        raise ConfigError(f"archive: must be a file NAME.tar.gz, given {str(file)!r}")
    if file.exists() or file.is_symlink():
        raise StudyError(f"archive: {file} already exists; give another name, or remove this file")
    if file.absolute().parent.resolve().is_relative_to(folder.path.resolve()):
        raise StudyError(f"archive: {file} is inside the study's folder; give a path outside of the folder")
    if not file.absolute().parent.is_dir():
        raise StudyError(f"archive: there is no directory {file.parent}; create it, or give another directory")
    config = folder.config()
    with ExitStack() as stack:
        stack.enter_context(folder.lock())
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=".archive-", dir=file.absolute().parent)))
        files, links, folders = contents(folder, set())
        files = {name: path for name, path in files.items() if name.partition("/")[0] not in _EXCLUDED}
        folders = [name for name in folders if name not in _EXCLUDED]
        # Include the list of the folder's own mirror copies: it keeps the unpacked study from overwriting a newer copy
        # that another folder wrote.
        files |= {path.name: path for path in (folder.mirrored_path,) if path.is_file()}
        if folder.database_path.is_file():
            files[RECORD] = _copy_record(folder, scratch / RECORD)
        written = scratch / "archive"
        with tarfile.open(written, "w:gz", format=tarfile.PAX_FORMAT) as tar:
            manifest = Manifest(
                name=config.study.name,
                study_id=study_id_of(folder, config) or "",
                files=_write_members(tar, config.study.name, files, links, folders),
                links=links,
                folders=folders,
                id="",
                generation=0,
                writer=f"{os.uname().nodename}:{folder.path}",
                written=datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC"),
            )
            text, info = manifest.model_dump_json(indent=1).encode(), _member(_MANIFEST, tarfile.REGTYPE)
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text))
        with written.open("rb") as content:
            os.fsync(content.fileno())
        written.rename(file)
    return manifest


def unarchive(file: Path, runs: Path = RUNS) -> StudyFolder:
    """Unpack an archived study into a folder under `runs`, compare the files with the manifest, and return the folder.

    Raises:
        StudyError: a study with the same name exists; the file is missing, damaged or no archive of a study; a later
            version wrote the archive; or a link in the archive leads out of the study's folder.
    """
    is_new = not runs.exists()
    try:
        with ExitStack() as stack:
            tar, name = _open(stack, file)
            folder = StudyFolder(runs / name)
            if folder.path.exists() or folder.path.is_symlink():
                raise StudyError(
                    f"archive: {folder} already exists; give another directory (in a shell: --in), or "
                    f"move this folder away"
                )
            runs.mkdir(parents=True, exist_ok=True)
            scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=f".{name}-", dir=runs)))
            try:
                tar.extractall(scratch, filter="data")
                _read_to_end(tar)
                _compare_with_manifest(scratch, name, file)
            except _DAMAGE as error:
                raise _damage_error(file) from error
            unpacked = StudyFolder(scratch / name)
            unpacked.refuse_links()
            unpacked.path.chmod(0o700)
            unpacked.path.rename(folder.path)
    finally:
        if is_new:
            with suppress(OSError):
                runs.rmdir()
    return folder


def _copy_record(folder: StudyFolder, target: Path) -> Path:
    try:
        return copy_database(folder.database_path, target)
    except sqlite3.DatabaseError as error:
        raise StudyError(
            f"record: {folder.database_path} is damaged: {error}; `hpo resume {folder.reference}` restores it from its "
            f"backup, if the backup is intact"
        ) from error


def _write_members(
    tar: tarfile.TarFile, top: str, files: Mapping[str, Path], links: Mapping[str, str], folders: Sequence[str]
) -> dict[str, str]:
    """Write folders, files and links below the folder `top`, and return the SHA-256 of each file."""
    digests: dict[str, str] = {}
    for name in ("", *folders):
        tar.addfile(_member(f"{top}/{name}".rstrip("/"), tarfile.DIRTYPE))
    for name, path in files.items():
        with path.open("rb") as content:
            reader, info = _HashingReader(content), _member(f"{top}/{name}", tarfile.REGTYPE)
            status = os.fstat(content.fileno())
            # Fix the size now, because a file such as notes.jsonl may grow while it is read.
            info.size, info.mode = status.st_size, 0o700 if status.st_mode & 0o100 else 0o600
            info.mtime = status.st_mtime
            tar.addfile(info, reader)
            digests[name] = reader.digest()
    for name, target in links.items():
        info = _member(f"{top}/{name}", tarfile.SYMTYPE)
        info.linkname = target
        tar.addfile(info)
    return digests


def _member(name: str, kind: bytes) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.mode = kind, 0o600 if kind == tarfile.REGTYPE else 0o700
    return info


class _HashingReader(io.RawIOBase):
    """A file that computes the SHA-256 of its content while it is read."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._hash = file, hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        piece = self._file.read(size)
        self._hash.update(piece)
        return piece

    def digest(self) -> str:
        return self._hash.hexdigest()


def _open(stack: ExitStack, file: Path) -> tuple[tarfile.TarFile, str]:
    """Open an archive; return the archive and its study's name."""
    if not file.is_file():
        raise StudyError(f"archive: there is no file {file}; give an archive from `hpo archive STUDY FILE.tar.gz`")
    try:
        tar = stack.enter_context(tarfile.open(file))  # noqa: SIM115 -- the stack closes it
        first = tar.next()
    except _DAMAGE as error:
        raise _damage_error(file) from error
    if first is None or not first.isdir():
        raise _damage_error(file)
    return tar, study_name(first.name, f"{file}: name")


def _read_to_end(tar: tarfile.TarFile) -> None:
    """Read the rest of the file, so that gzip verifies the checksum at the end."""
    assert tar.fileobj is not None
    while tar.fileobj.read(2**20):
        pass


def _compare_with_manifest(scratch: Path, name: str, file: Path) -> None:
    """Raise StudyError if the unpacked study `name` in `scratch` differs from the manifest in `scratch`."""
    content = parse_json((scratch / _MANIFEST).read_text(encoding="utf-8"), str(file))
    if not isinstance(content, dict):
        raise _damage_error(file)
    manifest = Manifest.model_validate(upgraded("archive", content, f"archive: {file}"))
    unpacked = [*entries(scratch / name)]
    actual = (
        {entry.name: digest_of(entry.path) for entry in unpacked if entry.kind == "file"},
        {entry.name: entry.target for entry in unpacked if entry.kind == "link"},
        {entry.name for entry in unpacked if entry.kind == "folder"},
    )
    top_level = {path.name for path in scratch.iterdir()}
    expected = (manifest.files, manifest.links, set(manifest.folders))
    if actual != expected or manifest.name != name or top_level != {name, _MANIFEST}:
        raise _damage_error(file)


def _damage_error(file: Path) -> StudyError:
    return StudyError(f"archive: {file} is damaged, or has no study that this version can read; nothing was written")
