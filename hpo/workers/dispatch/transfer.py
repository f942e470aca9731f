"""What travels with a task: what it needs of the study's folder, and what it leaves at its node."""

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from hpo.errors import HpoError
from hpo.files import links_out
from hpo.workers.dispatch.process.child import Child
from hpo.workers.store.disk import DiskStore
from hpo.workers.store.packing import Content, ObjectStore, unpack
from hpo.workers.store.url import UrlStore, name_of
from hpo.workers.training.tasks import Payload
from hpo.workers.training.worker import Message

Kind = Literal["data_dir", "function_file", "resume_dir", "checkpoint_dir", "files_dir"]
"""The names of the payload that lead to files."""

_IN_WORDS: Mapping[Kind, str] = {
    "data_dir": "the development data",
    "function_file": "the function",
    "resume_dir": "the training's state",
    "checkpoint_dir": "the model",
    "files_dir": "the training's own files",
}
# The same for all tasks of a study.
_COMMON: tuple[Kind, ...] = ("data_dir", "function_file")

Shipment = Mapping[Kind, Content]


class FileTransfer:
    """The driver's side; what all tasks need is sent once."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._common: dict[str, Content] = {}

    def pack_common(self, payload: Payload) -> Shipment:
        """Return what all tasks of the study need, packed before one of them has written beside it."""
        there = {kind: place for kind in _COMMON if (place := getattr(payload, kind)) is not None}
        for kind, place in there.items():
            if place not in self._common:
                self._common[place] = _put(self._store, kind, Path(place))
        return {kind: self._common[place] for kind, place in there.items()}

    def pack(self, payload: Payload) -> Shipment:
        """Return everything that the task needs; DispatchError where it is larger than is allowed."""
        shipment = dict(self.pack_common(payload))
        state = None if payload.resume_dir is None else Path(payload.resume_dir)
        # A training that died here may have left a link that leads out: it begins anew, and is refused at that link.
        if state is not None and state.is_dir() and not links_out(state):
            shipment["resume_dir"] = _put(self._store, "resume_dir", state)
        return shipment

    def take(self, payload: Payload, message: Mapping[str, Any]) -> None:
        """Write what a task left where it would have left it."""
        unpack(self._store.get(message["content"]), Path(getattr(payload, message["kind"])))


@dataclass(frozen=True)
class Node:
    """Runs tasks of a driver whose disk it does not see, or does not use for states and models: see `artifacts`."""

    child: Child
    disk: DiskStore
    objects: ObjectStore
    name: str
    artifacts: UrlStore | None = None

    def run(
        self, payload: Payload, call: str, shipment: Shipment, variables: Mapping[str, str] | None = None
    ) -> Iterator[Message]:
        """Yield the messages of `Child.run`, with what the task leaves before those that say that it did.

        That is `{"kind": ..., "content": ...}`. A state is sent about once a minute, so that little is lost with the
        node, and at the end where another training goes on from it, the next try of one that died included. Of several
        processes that train together, as the `variables` say, only the first gives back what it leaves.
        """
        is_first = (variables or {}).get("RANK", "0") == "0"
        try:
            with self.disk.scratch() as scratch:
                here = self._placed(payload, shipment, scratch)
                snapshots = scratch / "snapshots" if here.resume_dir and is_first else None
                for message in self.child.run(here, call, snapshots, variables):
                    yield from self._with_files(payload, here, call, message) if is_first else (message,)
        except (OSError, HpoError) as error:
            yield {"call": call, "machine_fault": f"{error} (node {self.name})", "printed": ""}

    def _placed(self, payload: Payload, shipment: Shipment, scratch: Path) -> Payload:
        """Return the payload with the places that it has here."""
        places: dict[str, Any] = {}
        if "data_dir" in shipment:
            places["data_dir"] = str(self._of_all(shipment["data_dir"]))
        if "function_file" in shipment:
            places["function_file"] = str(
                self._of_all(shipment["function_file"]) / Path(str(payload.function_file)).name
            )
        if payload.resume_dir is not None:
            places["resume_dir"] = str(scratch / "state")
            if self.artifacts is not None:
                self.artifacts.get_folder(name_of(payload.resume_dir), scratch / "state")
            elif "resume_dir" in shipment:
                unpack(self.objects.get(shipment["resume_dir"]), scratch / "state")
        if payload.checkpoint_dir is not None:
            places["checkpoint_dir"] = str(scratch / "model")
        if payload.files_dir is not None:
            places["files_dir"] = str(scratch / "files")
        return replace(payload, **places)

    def _of_all(self, content: Content) -> Path:
        """Return the folder that all workers of the search have here."""
        return self.disk.get(content.digest, partial(self.objects.get, content))

    def _with_files(self, payload: Payload, here: Payload, call: str, message: Message) -> Iterator[Message]:
        """Yield a message after what it says is there; `here` is the payload with the places on this machine."""
        if (snapshot := message.pop("snapshot", None)) is not None:
            yield from self._handed_over(payload, "resume_dir", Path(snapshot), call)
            shutil.rmtree(snapshot)
        outcome = message.get("outcome")
        goes_on = "died" in message or (outcome and (here.amount is not None or outcome.stopped is not None))
        if here.resume_dir is not None and goes_on:
            yield from self._handed_over(payload, "resume_dir", Path(here.resume_dir), call)
        if outcome is not None:
            if here.checkpoint_dir is not None and outcome.error is None:
                yield from self._handed_over(payload, "checkpoint_dir", Path(here.checkpoint_dir), call)
            if here.files_dir is not None:
                yield from self._handed_over(payload, "files_dir", Path(here.files_dir), call)
        elif "machine_fault" in message:
            message = {**message, "machine_fault": f"{message['machine_fault']} (node {self.name})"}
        yield message

    def _handed_over(self, payload: Payload, kind: Kind, folder: Path, call: str) -> Iterator[Message]:
        """Keep a folder among the artifacts, or yield its content, as that of a training's own files."""
        # A link out of it is refused at the next report: who died before goes on from the state before.
        if not folder.is_dir() or links_out(folder):
            return
        if self.artifacts is not None and kind != "files_dir":
            self.artifacts.put_folder(name_of(getattr(payload, kind)), folder)
            return
        yield {"call": call, "kind": kind, "content": _put(self.objects, kind, folder)}


def _put(store: ObjectStore, kind: Kind, place: Path) -> Content:
    """Return what a name of the payload leads to; DispatchError where it is larger than is allowed."""
    hint = "" if kind in _COMMON else ", or let workers keep states and models at study.artifacts"
    return store.put(place, _IN_WORDS[kind], hint)
