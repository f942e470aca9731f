"""Sends a task's files from the study's folder to the node that runs the task, and sends the new files back."""

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
"""The fields of a payload that are paths of files or folders."""

_IN_WORDS: Mapping[Kind, str] = {
    "data_dir": "the development data",
    "function_file": "the function",
    "resume_dir": "the training's state",
    "checkpoint_dir": "the model",
    "files_dir": "the training's own files",
}
# Of these, the fields that are equal in all tasks of a study.
_COMMON: tuple[Kind, ...] = ("data_dir", "function_file")

Shipment = Mapping[Kind, Content]


class FileTransfer:
    """Packs files for the nodes, and unpacks files from the nodes. Runs in the driver.

    A file or folder that all tasks of the study need is packed only once.
    """

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._common: dict[str, Content] = {}

    def pack_common(self, payload: Payload) -> Shipment:
        """Pack the files that all tasks of the study need. Call this before a task adds or changes such files."""
        places = {kind: place for kind in _COMMON if (place := getattr(payload, kind)) is not None}
        for kind, place in places.items():
            if place not in self._common:
                self._common[place] = _put(self._store, kind, Path(place))
        return {kind: self._common[place] for kind, place in places.items()}

    def pack(self, payload: Payload) -> Shipment:
        """Pack all files that the task needs. Raise DispatchError if the files are too large.

        Leave out the training's state if a link in the state's folder leads out of this folder.
        """
        shipment = dict(self.pack_common(payload))
        state = None if payload.resume_dir is None else Path(payload.resume_dir)
        # A training that died on this machine may have left a link out of its state. Such a state is not sent: the
        # training starts again, and fails when it creates the link again.
        if state is not None and state.is_dir() and not links_out(state):
            shipment["resume_dir"] = _put(self._store, "resume_dir", state)
        return shipment

    def take(self, payload: Payload, message: Mapping[str, Any]) -> None:
        """Unpack the files in a worker's message into the folder that the task's payload names for these files."""
        unpack(self._store.get(message["content"]), Path(getattr(payload, message["kind"])))


@dataclass(frozen=True)
class Node:
    """Runs tasks on a node that cannot access the driver's disk, or that stores states and models at a URL.

    Attributes:
        child: runs the training process.
        disk: the store on this node's disk.
        objects: the store through which files are sent and received.
        name: name of the node.
        artifacts: the store at the URL for states and models; None = states and models are sent to the driver.
    """

    child: Child
    disk: DiskStore
    objects: ObjectStore
    name: str
    artifacts: UrlStore | None = None

    def run(
        self, payload: Payload, call: str, shipment: Shipment, variables: Mapping[str, str] | None = None
    ) -> Iterator[Message]:
        """Run a task; yield the messages of `Child.run`, and the folders that the task has written.

        Each folder is yielded as a message `{"call": ..., "kind": ..., "content": ...}`; `content` is the packed
        folder. Such a message comes before the related message of `Child.run`: for example, the model comes before the
        outcome. If a folder is stored at the URL of `artifacts`, no message has this folder.

        The state is sent about once a minute, so that little training is lost if the node is lost. The state is also
        sent at the end if another training or attempt may continue from the state. In a group of processes, only the
        first process sends files. If files cannot be sent or written, the last message has `machine_fault`.
        """
        is_first = (variables or {}).get("RANK", "0") == "0"
        try:
            with self.disk.scratch() as scratch:
                own = self._place(payload, shipment, scratch)
                snapshots = scratch / "snapshots" if own.resume_dir and is_first else None
                for message in self.child.run(own, call, snapshots, variables):
                    yield from self._with_files(payload, own, call, message) if is_first else (message,)
        except (OSError, HpoError) as error:
            yield {"call": call, "machine_fault": f"{error} (node {self.name})", "printed": ""}

    def _place(self, payload: Payload, shipment: Shipment, scratch: Path) -> Payload:
        """Write the received files to this machine. Return the payload with their paths on this machine."""
        places: dict[str, Any] = {}
        if "data_dir" in shipment:
            places["data_dir"] = str(self._shared(shipment["data_dir"]))
        if "function_file" in shipment:
            places["function_file"] = str(
                self._shared(shipment["function_file"]) / Path(str(payload.function_file)).name
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

    def _shared(self, content: Content) -> Path:
        """Return the folder that contains `content`; all workers of the search on this machine share this folder."""
        return self.disk.get(content.digest, partial(self.objects.get, content))

    def _with_files(self, payload: Payload, own: Payload, call: str, message: Message) -> Iterator[Message]:
        """Yield the files that belong to a message, then the message. `own` is the payload with paths on this node."""
        if (snapshot := message.pop("snapshot", None)) is not None:
            yield from self._deliver(payload, "resume_dir", Path(snapshot), call)
            shutil.rmtree(snapshot)
        outcome = message.get("outcome")
        may_continue = "died" in message or (outcome and (own.amount is not None or outcome.stopped is not None))
        if own.resume_dir is not None and may_continue:
            yield from self._deliver(payload, "resume_dir", Path(own.resume_dir), call)
        if outcome is not None:
            if own.checkpoint_dir is not None and outcome.error is None:
                yield from self._deliver(payload, "checkpoint_dir", Path(own.checkpoint_dir), call)
            if own.files_dir is not None:
                yield from self._deliver(payload, "files_dir", Path(own.files_dir), call)
        elif "machine_fault" in message:
            message = {**message, "machine_fault": f"{message['machine_fault']} (node {self.name})"}
        yield message

    def _deliver(self, payload: Payload, kind: Kind, folder: Path, call: str) -> Iterator[Message]:
        """Put a folder into the store `artifacts`. Yield nothing.

        If there is no such store, or `kind` is `files_dir`, yield a message with the folder instead.
        """
        # Do not send a folder with a link out of it: the training fails because of the link at a later check. If the
        # attempt dies before, the next attempt continues from the last state that was sent.
        if not folder.is_dir() or links_out(folder):
            return
        if self.artifacts is not None and kind != "files_dir":
            self.artifacts.put_folder(name_of(getattr(payload, kind)), folder)
            return
        yield {"call": call, "kind": kind, "content": _put(self.objects, kind, folder)}


def _put(store: ObjectStore, kind: Kind, place: Path) -> Content:
    """Put the file or folder `place` into the store; `kind` is the payload's field that has this path.

    Raises:
        DispatchError: the file or folder is too large.
    """
    hint = "" if kind in _COMMON else ", or let workers store states and models at study.artifacts"
    return store.put(place, _IN_WORDS[kind], hint)
