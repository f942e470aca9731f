"""The actor that a Ray worker process holds: it lives as long as the study and runs one task at a time.

Ray sends the class itself, for it puts the driver's working directory first on the path of its workers, where a user
may have an `hpo.py`: nothing of the toolkit is imported before that is undone. So it imports nothing of it up here.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from typing import Any


class RayWorker:
    """Has a child process train, so that it survives what tasks do to theirs and can tell how they died.

    Args:
        import_from: the folder to import the objective from besides the installed packages.
        is_toolkits: whether that is the folder that the toolkit itself is imported from.
    """

    def __init__(self, import_from: str | None, is_toolkits: bool = False) -> None:
        if not is_toolkits:
            in_the_way = os.path.realpath(import_from or "")
            sys.path[:] = [entry for entry in sys.path if os.path.realpath(entry) != in_the_way]
        from hpo.engine.dispatch.child import Child

        self._child = Child(import_from)

    def start(self) -> None:
        """Start the child; whoever waits for this call knows that the worker is there."""
        self._child.start()

    def run(self, payload: Mapping[str, Any], call: str) -> Iterator[dict[str, Any]]:
        """Yield the messages of `Child.run`.

        Args:
            payload: what `Payload.to_dict` returned.
            call: names this call.
        """
        from hpo.engine.training.payload import Payload

        yield from self._child.run(Payload.from_dict(payload), call)
