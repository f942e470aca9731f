"""The actor in a Ray worker process: it lives as long as the study and runs one task at a time.

Ray puts the driver's working directory, where a user may have an `hpo.py`, first on the path of its workers. So Ray
sends the class itself, and this file imports the toolkit only after that entry is removed.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from typing import Any


class RayWorker:
    """Lets a child process train, so that it survives faults of tasks and can report how the child died.

    Args:
        import_from: the folder to import the objective from besides the installed packages.
        is_toolkits: whether the toolkit itself is imported from that folder.
        sees_gpus: whether it has a share of the machine's GPUs; else it sees none of them.
        fresh_process: whether each task has a child of its own.
    """

    def __init__(
        self, import_from: str | None, is_toolkits: bool = False, sees_gpus: bool = True, fresh_process: bool = False
    ) -> None:
        if not sees_gpus:
            os.environ["CUDA_VISIBLE_DEVICES"] = ""
        if not is_toolkits:
            in_the_way = os.path.realpath(import_from or "")
            sys.path[:] = [entry for entry in sys.path if os.path.realpath(entry) != in_the_way]
        from hpo.engine.dispatch.process.child import Child

        self._child = Child(import_from, fresh_process)

    def start(self) -> None:
        """Start the child; when the call returns, the worker is ready."""
        self._child.start()

    def run(self, payload: Mapping[str, Any], call: str) -> Iterator[dict[str, Any]]:
        """Yield the messages of `Child.run`.

        Args:
            payload: what `Payload.to_dict` returned.
            call: the unique name of this call.
        """
        from hpo.engine.training.payload import Payload

        yield from self._child.run(Payload.from_dict(payload), call)
