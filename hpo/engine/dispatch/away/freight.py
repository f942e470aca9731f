"""What travels with a task: what it needs of the study's folder, and what it leaves there."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from hpo.engine.store.objects import Content, ObjectStore
from hpo.engine.store.packing import unpack
from hpo.engine.training.payload import Payload
from hpo.tree import links_out

Kind = Literal["data_dir", "kept", "resume_dir", "checkpoint_dir"]
"""The names of the payload that lead to files."""

_IN_WORDS: Mapping[Kind, str] = {
    "data_dir": "the development data",
    "kept": "the function",
    "resume_dir": "the training's state",
    "checkpoint_dir": "the model",
}
# The same for all tasks of a study.
_COMMON: tuple[Kind, ...] = ("data_dir", "kept")

Shipment = Mapping[Kind, Content]


class Freight:
    """The driver's side; what all tasks need is sent once."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._common: dict[str, Content] = {}

    def pack_common(self, payload: Payload) -> Shipment:
        """Return what all tasks of the study need, packed before one of them has written beside it."""
        there = {kind: place for kind in _COMMON if (place := getattr(payload, kind)) is not None}
        for kind, place in there.items():
            if place not in self._common:
                self._common[place] = put(self._store, kind, Path(place))
        return {kind: self._common[place] for kind, place in there.items()}

    def pack(self, payload: Payload) -> Shipment:
        """Return everything that the task needs; DispatchError where it is larger than is allowed."""
        shipment = dict(self.pack_common(payload))
        state = None if payload.resume_dir is None else Path(payload.resume_dir)
        # A training that died here may have left a link that leads out: it begins anew, and is refused at that link.
        if state is not None and state.is_dir() and not links_out(state):
            shipment["resume_dir"] = put(self._store, "resume_dir", state)
        return shipment

    def take(self, payload: Payload, message: Mapping[str, Any]) -> None:
        """Write what a task left where it would have left it."""
        unpack(self._store.get(message["content"]), Path(getattr(payload, message["kind"])))


def put(store: ObjectStore, kind: Kind, place: Path) -> Content:
    """Return what a name of the payload leads to; DispatchError where it is larger than is allowed."""
    hint = "" if kind in _COMMON else ", or let workers keep states and models at study.artifacts"
    return store.put(place, _IN_WORDS[kind], hint)
