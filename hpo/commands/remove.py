"""Removes a study: its folder, its runs in MLflow, what its workers keep elsewhere, and, if asked, its mirror."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hpo.config.sealing import hide_secrets
from hpo.config.study_config import StudyConfig
from hpo.errors import HpoError, StudyError
from hpo.files import links_out, remove_tree
from hpo.formatting import format_count
from hpo.study.files.folder import OPENINGS, short_path
from hpo.study.keeping.mirror import Mirror
from hpo.study.keeping.removal import Removal
from hpo.study.ledger import hand_over
from hpo.track.make import tracking_uri
from hpo.track.store import delete_study, may_have_study
from hpo.workers.store.packing import in_words
from hpo.workers.store.url import UrlStore

_SHOWN = 4


@dataclass(frozen=True)
class Removed:
    """A study that is gone: how many runs MLflow had of it, and the URL of a mirror that went along; None: none."""

    folder: Path
    files: int
    bytes: int
    runs: int
    mirror: str | None


def says_what_goes(removal: Removal, mirror: bool, runs: bool) -> Iterator[str]:
    """Yield lines on what `remove` takes along, and on what stays."""
    if removal.is_link:
        yield f"{removal.folder}: a link to {removal.folder.path.readlink()}, which stays"
        return
    largest = sorted(removal.sizes.items(), key=lambda item: -item[1])[:_SHOWN]
    inner = ", ".join(f"{name} {in_words(size)}" for name, size in largest)
    yield f"{removal.folder}: {format_count(removal.files, 'file*')}, {in_words(removal.bytes)} ({inner})"
    for link in links_out(removal.folder.path):
        yield f"  {link.name}: a link to {link.path.readlink()}, which stays"
    yield from (f"  {line}" for line in _elsewhere(removal, mirror, runs))
    if removal.folder.openings_path.exists() or removal.folder.test_path.exists():
        yield f"  {short_path(removal.folder.path.parent / OPENINGS)} keeps how often it opened a test part"


def _elsewhere(removal: Removal, mirror: bool, runs: bool) -> Iterator[str]:
    config = removal.config
    if removal.folder.is_import:
        return
    if config is None or removal.study_id is None:
        yield "what MLflow and a mirror have of it stays: its configuration or its record cannot be read"
        return
    if removal.same is not None:
        yield f"what MLflow and a mirror have of it stays: {removal.same} is the same study, copied by hand"
        return
    if may_have_study(config.track.uri, removal.study_id):
        yield f"its runs in MLflow, {hide_secrets(config.track.uri, {})}{'' if runs else ', stay'}"
    section = config.study
    for key, url, stays in (
        ("study.mirror", section.mirror, "" if mirror else " stays; --mirror removes it, too"),
        ("study.artifacts", config.artifacts, ""),
        ("study.storage", section.storage, " stays, with its record"),
    ):
        if url is not None:
            yield f"{key}: {hide_secrets(url, {})}{stays}"


def remove(removal: Removal, *, mirror: bool = False, runs: bool = True) -> Removed:
    """Remove a study that is not running; the folder last, so that after a fault the same command goes on.

    Args:
        removal: the study.
        mirror: whether its copy at `study.mirror` is removed, too.
        runs: whether MLflow's runs are.

    Raises:
        StudyError: it runs, or one of the places cannot be reached.
        TrackError: MLflow cannot be.
    """
    folder, config, study_id = removal.folder, removal.config, removal.study_id
    if removal.is_link:
        folder.path.unlink()
        return Removed(folder.path, 0, 0, 0, None)
    if not folder.path.is_dir():
        raise StudyError(f"study: {folder} has been removed meanwhile")
    folder.refuse_running()
    for link in links_out(folder.path):
        # What leads out of the folder is taken away alone: nothing is read or removed by way of it.
        link.path.unlink(missing_ok=True)
    deleted, gone = 0, None
    with folder.lock():
        if not removal.sizes.keys() & {path.name for path in folder.path.iterdir()}:
            raise StudyError(f"study: {folder} has been removed meanwhile")
        if config is not None and study_id is not None and removal.same is None:
            if mirror and config.study.mirror is not None:
                is_there = Mirror(config.study.mirror, folder, config.study.name, study_id).remove()
                gone = config.study.mirror if is_there else None
            if runs:
                deleted = _delete_runs(config, study_id)
            if config.artifacts is not None:
                _empty(UrlStore(config.artifacts, "study.artifacts"))
        hand_over(folder)
        remove_tree(folder.path)
    return Removed(folder.path, removal.files, removal.bytes, deleted, gone)


def _delete_runs(config: StudyConfig, study_id: str) -> int:
    try:
        return delete_study(tracking_uri(config), study_id)
    except HpoError as error:
        raise type(error)(f"{error}; nothing was removed of the folder; --keep-runs leaves MLflow alone") from error


def _empty(store: UrlStore) -> None:
    for below in ("states", "checkpoints"):
        for name in store.folders(below):
            store.remove_folder(f"{below}/{name}")
