"""The driver's side: sends a task what it needs of the study's folder, and writes there what comes back."""

import tempfile
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal

from hpo.engine.dispatch.away.parcel import in_words, packed, unpack
from hpo.engine.training.payload import Payload
from hpo.errors import DispatchError
from hpo.tree import links_out

Kind = Literal["data_dir", "kept", "resume_dir", "checkpoint_dir"]
"""The names of the payload that lead to files."""

# The same for all tasks of a study.
_COMMON: Sequence[Kind] = ("data_dir", "kept")
IN_WORDS: Mapping[Kind, str] = {
    "data_dir": "the development data",
    "kept": "the function",
    "resume_dir": "the training's state",
    "checkpoint_dir": "the model",
}


@dataclass(frozen=True)
class Sent:
    """A folder or file on its way to a node.

    Attributes:
        digest: its SHA-256.
        pieces: the references to its pieces, in order.
        search: the id of this run of the search, which no other has, whatever its study is called.
    """

    digest: str
    pieces: Sequence[Any]
    search: str


Shipment = Mapping[Kind, Sent]


def refuse_large(kind: Kind, size: int, most_bytes: int) -> None:
    """Raise DispatchError for more bytes than a study lets through its driver."""
    if size > most_bytes:
        raise DispatchError(
            f"dispatch.largest_message: {IN_WORDS[kind]} would be sent in {in_words(size)}, allowed are "
            f"{in_words(most_bytes)}; raise it (in MiB)"
            + ("" if kind in _COMMON else ", or let workers keep states and models at study.artifacts")
        )


class Freight:
    """Packs what goes to a node, and unpacks what comes back.

    Args:
        put: makes bytes available to all nodes, and returns the reference to them.
        most_bytes: of one folder or file.
    """

    def __init__(self, put: Callable[[bytes], Any], most_bytes: int) -> None:
        self._put = put
        self._most_bytes = most_bytes
        self._search = uuid.uuid4().hex
        self._common: dict[str, Sent] = {}
        self._arriving: dict[tuple[str, Kind], IO[bytes]] = {}

    def pack_common(self, payload: Payload) -> None:
        """Pack what all tasks of the study need, before one of them has written beside it."""
        for kind in _COMMON:
            place = getattr(payload, kind)
            if place is not None and place not in self._common:
                self._common[place] = self._sent(kind, Path(place))

    def pack(self, payload: Payload) -> Shipment:
        """Return everything that the task needs.

        Raises:
            DispatchError: it is larger than is allowed.
        """
        self.pack_common(payload)
        shipment: dict[Kind, Sent] = {
            kind: self._common[place] for kind in _COMMON if (place := getattr(payload, kind)) is not None
        }
        state = None if payload.resume_dir is None else Path(payload.resume_dir)
        # A training that died here may have left a link that leads out: it begins anew, and is refused at that link.
        if state is not None and state.is_dir() and not links_out(state):
            shipment["resume_dir"] = self._sent("resume_dir", state)
        return shipment

    def take(self, payload: Payload, message: Mapping[str, Any]) -> None:
        """Keep a piece of what a task left; with the last one it is written where the task would have left it."""
        key = (message["call"], message["kind"])
        if message["is_first"]:
            self.drop(message["call"], message["kind"])
            self._arriving[key] = tempfile.TemporaryFile()  # noqa: SIM115 -- closed with the last piece, or by `drop`
        file = self._arriving[key]
        file.write(message["piece"])
        if message["is_last"]:
            file.seek(0)
            unpack(iter(lambda: file.read(1 << 20), b""), Path(getattr(payload, message["kind"])))
            self.drop(*key)

    def drop(self, call: str, kind: Kind | None = None) -> None:
        """Forget the pieces of a call that ended early."""
        for key in [key for key in self._arriving if key[0] == call and kind in (None, key[1])]:
            self._arriving.pop(key).close()

    def _sent(self, kind: Kind, place: Path) -> Sent:
        with packed(place) as parcel:
            refuse_large(kind, parcel.size, self._most_bytes)
            return Sent(parcel.digest, [self._put(piece) for piece in parcel.pieces()], self._search)
