"""Brings a study from its mirror to this machine."""

import hashlib
import tempfile
from pathlib import Path

from hpo.errors import StudyError
from hpo.place import Place
from hpo.study.folder import RUNS, StudyFolder
from hpo.study.mirror.known import remember
from hpo.study.mirror.manifest import Manifest


def restore(url: str, runs: Path = RUNS) -> StudyFolder:
    """Write the study at a URL into its folder under `runs`, and return that.

    Raises:
        StudyError: there is none, it is damaged, or a folder of its name is there already.
    """
    place = Place(url, "study")
    manifest = Manifest.at(place)
    if manifest is None:
        raise StudyError(f"study: there is no copy of a study at {place.url}; see study.mirror")
    folder = StudyFolder(runs / manifest.name)
    if folder.path.exists():
        raise StudyError(
            f"study: {folder} is there already; go on with it by `hpo resume {manifest.name}`, or move it away first"
        )
    runs.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{manifest.name}-", dir=runs) as scratch:
        aside = StudyFolder(Path(scratch, "study"))
        aside.path.mkdir(mode=0o700)
        for file, digest in manifest.files.items():
            if file in manifest.links:
                continue
            path = aside.inside(file)
            path.parent.mkdir(parents=True, exist_ok=True)
            place.get(f"files/{digest}", path)
            if hashlib.sha256(path.read_bytes()).hexdigest() != digest:
                raise StudyError(f"study: {file} at {place.url} is damaged; copy the study there again")
        # After the files: none of them is written through a link.
        for name in manifest.folders:
            aside.inside(name).mkdir(parents=True, exist_ok=True)
        for name, target in manifest.links.items():
            link = aside.inside(name)
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(target)
        aside.refuse_links()
        if manifest.id:
            remember(aside, place.url, [manifest.id])
        aside.path.rename(folder.path)
    return folder
