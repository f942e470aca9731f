"""Moves a study's folder, also to another file system: copied, compared by checksums, and only then removed."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from hpo.config.study_config import StudyConfig
from hpo.errors import StudyError
from hpo.files import copy_tree, entries, remove_tree
from hpo.study.basis.configurations import sources_of
from hpo.study.files.folder import StudyFolder, refuse_link, short_path
from hpo.study.ledger import hand_over
from hpo.workers.store.packing import digest_of, in_words

# Of one machine, or made anew by SQLite.
_LEFT = ("driver.lock", "mlflow.lock", "study.db-shm")


def move(folder: StudyFolder, directory: Path) -> StudyFolder:
    """Move a study that is not running into a directory, which is made, and return its new folder.

    A process that is killed leaves the study where it was, or in both places; the same call then goes on. What the
    study knows of openings of test parts is added to the ledger there, too.

    Raises:
        StudyError: it runs, the directory holds something else of its name, or a copy is not what was copied. Or the
            directory is not there and stands for another name of the study.
    """
    target = StudyFolder(directory / folder.path.name)
    refuse_link(target.path)
    if target.path.resolve() == folder.path.resolve():
        raise StudyError(f"move: {folder} is in {directory} already; give another directory")
    if target.path.resolve().is_relative_to(folder.path.resolve()):
        raise StudyError(f"move: {directory} is the study's own folder, or inside of it; give another directory")
    if (around := _study_around(directory)) is not None:
        raise StudyError(
            f"move: {directory} lies in study {around}, and {folder} would go with it; give another directory"
        )
    if not directory.exists() and directory.resolve().parent == folder.path.parent.resolve():
        # As `mv` renames. There a list would not find it.
        raise StudyError(
            f"move: there is no directory {directory}, and a study keeps its name: `hpo resume {folder.reference} --as "
            f"{directory.name}` copies it under another; for {target} make the directory first"
        )
    with folder.lock():
        hand_over(folder)
        is_there = target.path.exists()
        if is_there and _digests(folder.path) != _digests(target.path):
            raise StudyError(f"move: {target} is there already, and is not a copy of {folder}; give another directory")
        directory.mkdir(parents=True, exist_ok=True)
        if not is_there and is_one_file_system(folder.path, directory):
            folder.path.rename(target.path)
        else:
            if not is_there:
                _copy(folder.path, target.path)
            remove_tree(folder.path)
    hand_over(target)
    return target


def relative_places(config: StudyConfig) -> dict[str, str]:
    """Return by key what a configuration names relative to the working directory, as it must be given elsewhere."""
    here = Path.cwd()
    places = {key: str(here / path) for key, path in sources_of(config).items() if not Path(path).is_absolute()}
    for key, url in (("track.uri", config.track.uri), ("study.storage", config.study.storage)):
        scheme, mark, path = (url or "").partition(":///")
        if mark and scheme.startswith("sqlite") and not path.startswith("/"):
            places[key] = f"{scheme}:///{here / path}"
    return places


def is_one_file_system(one: Path, other: Path) -> bool:
    """Return whether a folder can be renamed from one to the other."""
    return one.stat().st_dev == other.stat().st_dev


def _study_around(directory: Path) -> StudyFolder | None:
    """Return the study whose folder this is, or is inside of."""
    folders = map(StudyFolder, (directory.resolve(), *directory.resolve().parents))
    # Others have a config.yaml, too.
    return next(
        (each for each in folders if each.exists and (each.status_path.exists() or each.trials_path.exists())), None
    )


def _copy(source: Path, target: Path) -> None:
    """Copy a folder whole or not at all; StudyError where the copy is another one."""
    size = sum(entry.path.lstat().st_size for entry in entries(source) if entry.kind == "file")
    if shutil.disk_usage(target.parent).free < size:
        raise StudyError(
            f"move: {target.parent} has no room for {in_words(size)}; make room, or give another directory"
        )
    aside = target.with_name(f".{target.name}-{os.getpid()}-copy")
    try:
        shutil.rmtree(aside, ignore_errors=True)
        copy_tree(source, aside, _LEFT, _copy_file)
        if different := dict(_digests(source).items() ^ _digests(aside).items()):
            name = min(different)
            raise StudyError(f"move: {short_path(source / name)} was copied wrongly; the study stays there")
        aside.rename(target)
        _flush(target.parent)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _copy_file(source: Path, target: Path) -> None:
    shutil.copy2(source, target)
    # A crash of the machine after the original is removed must not take the copy.
    _flush(target)


def _flush(path: Path) -> None:
    place = os.open(path, os.O_RDONLY)
    try:
        os.fsync(place)
    finally:
        os.close(place)


def _digests(folder: Path) -> Mapping[str, str | None]:
    """Return the SHA-256 of each file, where each link leads, and the folders, by name."""
    found: dict[str, str | None] = {}
    for entry in entries(folder):
        if entry.name not in _LEFT:
            found[entry.name] = digest_of(entry.path) if entry.kind == "file" else entry.target
    return found
