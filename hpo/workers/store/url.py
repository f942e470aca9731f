"""The store at a URL. Files are identified by their content, and folders by their names."""

import hashlib
import tarfile
from pathlib import Path

from hpo.errors import StudyError
from hpo.place import Place
from hpo.workers.store.packing import digest_of, packed, unpack

_FILES = "files"


class UrlStore:
    """Stores each file as `files/SHA256`, and each folder as an archive `NAME.tar`.

    The methods raise StudyError if the store cannot be read or written.

    Args:
        url: the address of the store.
        key: the configuration key that contains the address, for error messages.

    Raises:
        ConfigError: the address is not valid, or its protocol is unknown or not installed.
    """

    def __init__(self, url: str, key: str) -> None:
        self.place = Place(url, key)

    def put(self, content: bytes, stored: set[str]) -> str:
        """Upload a file's content, unless its SHA-256 is in `stored`. Add the SHA-256 to `stored` and return it."""
        digest = hashlib.sha256(content).hexdigest()
        if digest not in stored:
            self.place.write(f"{_FILES}/{digest}", [content])
            stored.add(digest)
        return digest

    def get(self, digest: str, file: Path) -> bool:
        """Download the stored file with this SHA-256 to `file`. Return False if the stored content is damaged."""
        self.place.get(f"{_FILES}/{digest}", file)
        return digest_of(file) == digest

    def digests(self) -> set[str]:
        """Return the SHA-256 of each stored file."""
        return set(self.place.names(_FILES))

    def remove(self, digest: str) -> None:
        """Delete the file with this SHA-256, if the store has it."""
        self.place.remove(f"{_FILES}/{digest}")

    def put_folder(self, name: str, folder: Path) -> None:
        """Store a folder under this name. An old folder with the same name is replaced."""
        with packed(folder) as package:
            self.place.write(f"{name}.tar", package.pieces())

    def get_folder(self, name: str, folder: Path) -> bool:
        """Download the folder with this name. Return False if the folder is missing or damaged."""
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
        """Return the names of the folders that are stored directly in `below`; a name does not begin with `below`."""
        return [name.removesuffix(".tar") for name in self.place.names(below)]


def refuse_used(store: UrlStore) -> None:
    """Raise StudyError if the store has states or models of another study, because a new study would use them."""
    if store.folders("states") or store.folders("checkpoints"):
        raise StudyError(
            f"study.artifacts: {store.place.url} has states or models of another study with the same study.name; "
            f"delete these states and models, or give another study.name or URL"
        )


def name_of(folder: str | Path) -> str:
    """Return the name in the store for a state or model: its path within the study's folder, such as `states/...`."""
    return "/".join(Path(folder).parts[-2:])
