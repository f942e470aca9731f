"""The store in Ray's object store: what is put there on one machine is fetched by its references on another."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hpo.engine.store.packing import in_words, packed
from hpo.errors import DispatchError


@dataclass(frozen=True)
class Content:
    """A folder or file on its way to another machine: its SHA-256, and the references to its pieces, in order."""

    digest: str
    pieces: Sequence[Any]


class ObjectStore:
    """Puts folders and files, of at most `most_bytes` each, where other machines can get them.

    What is given to it makes bytes available and returns the reference to them, or returns the bytes of a reference.
    """

    def __init__(self, put: Callable[[bytes], Any], get: Callable[[Any], bytes], most_bytes: int) -> None:
        self._put, self._get = put, get
        self._most_bytes = most_bytes

    def put(self, place: Path, what: str, hint: str = "") -> Content:
        """Return the content of a folder or file; DispatchError, which names it by `what`, where it is too large."""
        with packed(place) as package:
            if package.size > self._most_bytes:
                raise DispatchError(
                    f"dispatch.largest_message: {what} would be sent in {in_words(package.size)}, allowed are "
                    f"{in_words(self._most_bytes)}; raise it (in MiB){hint}"
                )
            return Content(package.digest, [self._put(piece) for piece in package.pieces()])

    def get(self, content: Content) -> Iterator[bytes]:
        """Yield the pieces, for `unpack`."""
        return map(self._get, content.pieces)
