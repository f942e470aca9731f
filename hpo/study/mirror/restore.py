"""Brings a study from its mirror to this machine."""

import tempfile
from pathlib import Path

from hpo.engine.store.url import UrlStore
from hpo.errors import StudyError
from hpo.study.files.folder import RUNS, StudyFolder
from hpo.study.mirror.manifest import Manifest, remember, unreadable


def restore(url: str, runs: Path = RUNS) -> StudyFolder:
    """Write the study at a URL into its folder under `runs`, and return that.

    Raises:
        StudyError: there is none, it is damaged, or a folder of its name is there already.
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
            raise unreadable(store.place) from error
        aside.refuse_links()
        if manifest.id:
            remember(aside, store.place.url, [manifest.id])
        aside.path.rename(folder.path)
    return folder


def _write(manifest: Manifest, store: UrlStore, folder: StudyFolder) -> None:
    for file, digest in manifest.files.items():
        if file in manifest.links:
            continue
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
