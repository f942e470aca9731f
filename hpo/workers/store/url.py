"""The store at a URL: files by their content, and folders by name. A new folder replaces one of the same name."""

import hashlib
import tarfile
from pathlib import Path

from hpo.errors import StudyError
from hpo.place import Place
from hpo.workers.store.packing import digest_of, packed, unpack

_FILES = "files"


class UrlStore:
    """Stores files below `files/` by their SHA-256, and folders as archives `NAME.tar`.

    Args:
        url: the address.
        key: the configuration key that has the address, for error messages.
    """

    def __init__(self, url: str, key: str) -> None:
        self.place = Place(url, key)

    def put(self, content: bytes, stored: set[str]) -> str:
        """Send a file's content unless `stored` has its SHA-256. Add the SHA-256 to `stored` and return it."""
        digest = hashlib.sha256(content).hexdigest()
        if digest not in stored:
            self.place.write(f"{_FILES}/{digest}", [content])
            stored.add(digest)
        return digest

    def get(self, digest: str, file: Path) -> bool:
        """Download a content into a file; return whether its SHA-256 is right."""
        self.place.get(f"{_FILES}/{digest}", file)
        return digest_of(file) == digest

    def digests(self) -> set[str]:
        """Return the SHA-256 of all contents."""
        return set(self.place.names(_FILES))

    def remove(self, digest: str) -> None:
        """Delete a content."""
        self.place.remove(f"{_FILES}/{digest}")

    def put_folder(self, name: str, folder: Path) -> None:
        """Store a folder under a name."""
        with packed(folder) as package:
            self.place.write(f"{name}.tar", package.pieces())

    def get_folder(self, name: str, folder: Path) -> bool:
        """Download the folder with this name; return whether the store has it undamaged."""
        content = self.place.read(f"{name}.tar")
        if content is None:
            return False
        try:
            unpack([content], folder)
        except tarfile.TarError:
            return False
        return True

    def remove_folder(self, name: str) -> None:
        """Delete the folder with this name, if the store has it."""
        self.place.remove(f"{name}.tar")

    def folders(self, below: str) -> list[str]:
        """Return the names of the stored folders below `below`, without that prefix."""
        return [name.removesuffix(".tar") for name in self.place.names(below)]


def refuse_used(store: UrlStore) -> None:
    """Raise StudyError if the store has states or models of another study: a new study would continue from them."""
    if store.folders("states") or store.folders("checkpoints"):
        raise StudyError(
            f"study.artifacts: {store.place.url} has states or models of another study with this name; delete "
            f"them, or give another study.name or URL"
        )


def name_of(folder: str | Path) -> str:
    """Return the name of a state or model in the store: its path in the study's folder, such as `states/...`."""
    return "/".join(Path(folder).parts[-2:])
