"""The node's side: trains in a folder of its own, with what was sent, and sends back what is left there."""

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from hpo.engine.dispatch.away.freight import Kind, Shipment, put
from hpo.engine.dispatch.process.child import Child
from hpo.engine.store.disk import DiskStore
from hpo.engine.store.objects import Content, ObjectStore
from hpo.engine.store.packing import unpack
from hpo.engine.store.url import UrlStore, name_of
from hpo.engine.training.payload import Payload
from hpo.engine.training.worker import Message
from hpo.errors import HpoError
from hpo.tree import links_out


class Node:
    """Runs tasks of a driver whose disk it does not see, or does not use for states and models: see `artifacts`."""

    def __init__(
        self, child: Child, disk: DiskStore, objects: ObjectStore, name: str, artifacts: UrlStore | None = None
    ) -> None:
        self._child = child
        self._disk = disk
        self._objects = objects
        self._name = name
        self._artifacts = artifacts

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
            with self._disk.scratch() as scratch:
                here = self._placed(payload, shipment, scratch)
                snapshots = scratch / "snapshots" if here.resume_dir and is_first else None
                for message in self._child.run(here, call, snapshots, variables):
                    yield from self._with_files(payload, here, call, message) if is_first else (message,)
        except (OSError, HpoError) as error:
            yield {"call": call, "machine_fault": f"{error} (node {self._name})", "printed": ""}

    def _placed(self, payload: Payload, shipment: Shipment, scratch: Path) -> Payload:
        """Return the payload with the places that it has here."""
        places: dict[str, Any] = {}
        if "data_dir" in shipment:
            places["data_dir"] = str(self._of_all(shipment["data_dir"]))
        if "kept" in shipment:
            places["kept"] = str(self._of_all(shipment["kept"]) / Path(str(payload.kept)).name)
        if payload.resume_dir is not None:
            places["resume_dir"] = str(scratch / "state")
            if self._artifacts is not None:
                self._artifacts.get_folder(name_of(payload.resume_dir), scratch / "state")
            elif "resume_dir" in shipment:
                unpack(self._objects.get(shipment["resume_dir"]), scratch / "state")
        if payload.checkpoint_dir is not None:
            places["checkpoint_dir"] = str(scratch / "model")
        return replace(payload, **places)

    def _of_all(self, content: Content) -> Path:
        """Return the folder that all workers of the search have here."""
        return self._disk.get(content.digest, partial(self._objects.get, content))

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
        elif "machine_fault" in message:
            message = {**message, "machine_fault": f"{message['machine_fault']} (node {self._name})"}
        yield message

    def _handed_over(self, payload: Payload, kind: Kind, folder: Path, call: str) -> Iterator[Message]:
        """Keep a folder among the artifacts, or yield its content."""
        # A link out of it is refused at the next report: who died before goes on from the state before.
        if not folder.is_dir() or links_out(folder):
            return
        if self._artifacts is not None:
            self._artifacts.put_folder(name_of(getattr(payload, kind)), folder)
            return
        yield {"call": call, "kind": kind, "content": put(self._objects, kind, folder)}
