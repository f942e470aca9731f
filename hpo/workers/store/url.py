"""The store at a URL: files by their content, and folders by a name, which a later one of that name replaces."""

import hashlib
import tarfile
from pathlib import Path

from hpo.errors import StudyError
from hpo.place import Place
from hpo.workers.store.packing import digest_of, packed, unpack

_FILES = "files"


class UrlStore:
    """Keeps files below `files/` by their SHA-256, and folders as archives `NAME.tar`; `key` gave the URL."""

    def __init__(self, url: str, key: str) -> None:
        self.place = Place(url, key)

    def put(self, content: bytes, there: set[str]) -> str:
        """Send a file's content unless it is `there`, to which it is added; return its SHA-256."""
        digest = hashlib.sha256(content).hexdigest()
        if digest not in there:
            self.place.write(f"{_FILES}/{digest}", [content])
            there.add(digest)
        return digest

    def get(self, digest: str, file: Path) -> bool:
        """Write a content as a file; return whether it is whole."""
        self.place.get(f"{_FILES}/{digest}", file)
        return digest_of(file) == digest

    def digests(self) -> set[str]:
        """Return the SHA-256 of all contents."""
        return set(self.place.names(_FILES))

    def remove(self, digest: str) -> None:
        """Delete a content."""
        self.place.remove(f"{_FILES}/{digest}")

    def put_folder(self, name: str, folder: Path) -> None:
        """Keep a folder under a name."""
        with packed(folder) as package:
            self.place.write(f"{name}.tar", package.pieces())

    def get_folder(self, name: str, folder: Path) -> bool:
        """Write what is kept under a name as a folder; return whether it is there, and whole."""
        content = self.place.read(f"{name}.tar")
        if content is None:
            return False
        try:
            unpack([content], folder)
        except tarfile.TarError:
            return False
        return True

    def remove_folder(self, name: str) -> None:
        """Delete what is kept under a name, if it is there."""
        self.place.remove(f"{name}.tar")

    def folders(self, below: str) -> list[str]:
        """Return the last parts of the names `BELOW/...` under which folders are kept."""
        return [name.removesuffix(".tar") for name in self.place.names(below)]


def refuse_used(store: UrlStore) -> None:
    """Raise StudyError where a new study would find the states or models of another: it would go on from them."""
    if store.folders("states") or store.folders("checkpoints"):
        raise StudyError(
            f"study.artifacts: {store.place.url} holds the states or models of another study of this name; delete "
            f"them, or give another study.name or URL"
        )


def name_of(folder: str | Path) -> str:
    """Return the name of a state or a model, `states/...` or `checkpoints/...`: its path below the study's folder."""
    return "/".join(Path(folder).parts[-2:])
