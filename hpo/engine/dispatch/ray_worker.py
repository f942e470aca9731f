"""The actor that a Ray worker process holds: it lives as long as the study and runs one task at a time."""

from collections.abc import Iterator

from hpo.engine.dispatch.child import Child
from hpo.engine.training.payload import Payload
from hpo.engine.training.worker import Message


class RayWorker:
    """Has a child process train, so that it survives what tasks do to theirs and can tell how they died."""

    def __init__(self, import_from: str | None) -> None:
        self._child = Child(import_from)

    def start(self) -> None:
        """Start the child; whoever waits for this call knows that the worker is there."""
        self._child.start()

    def run(self, payload: Payload, call: str) -> Iterator[Message]:
        """Yield the messages of `hpo.engine.dispatch.child.Child.run`."""
        yield from self._child.run(payload, call)
