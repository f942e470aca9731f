"""The actor in a Ray worker process. It lives as long as the search, and runs one task at a time.

Ray puts the driver's working directory first on the `sys.path` of the workers. That folder may have an `hpo.py` of the
user, which would hide the toolkit. So Ray sends this class by value, not by import. The code in this file imports the
toolkit only after it has removed the folder from `sys.path`.
"""

import functools
import os
import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Equipment:
    """The settings that are equal for all workers of a search."""

    # The folder to import the objective from, in addition to installed packages; None = the folder with the sent code.
    import_from: str | None = None
    is_toolkits: bool = False  # whether the toolkit itself is imported from that folder
    package: str | None = None  # the installed package that declares the objective; None = see `Code.package`
    driver: str = ""  # Ray's id of the driver's node; its workers can use the driver's disk
    sees_gpus: bool = True  # whether workers use GPUs; if not, all GPUs are hidden from them
    # The share of a GPU's memory that torch may allocate in each worker; None = all.
    memory_share: float | None = None
    fresh_process: bool = False  # whether each task gets a new process
    search: str = ""  # unique id of this run of the search
    most_bytes: int = 0  # the largest state or model, in bytes, that may be sent to the driver
    artifacts: str | None = None  # URL where states and models are stored; None = sent to the driver
    arguments: Sequence[str] = ()  # the command line of the search
    path: Sequence[str] = ()  # the import path of the search's process; see `whole_path`

    def prepare_folder(self) -> str:
        """Remove the objective's folder from `sys.path`, because the folder could hide the toolkit. Return the folder.

        If the toolkit itself is imported from this folder, only return the folder.
        """
        folder = self.import_from or str(os.getcwd())  # noqa: PTH109 -- see the top of the file
        if not self.is_toolkits:
            resolved = os.path.realpath(folder)
            sys.path[:] = [entry for entry in sys.path if os.path.realpath(entry) != resolved]
        return folder


class RayWorker:
    """Runs tasks in a child process. If the child dies, the worker survives and can report the cause."""

    def __init__(self, equipment: Equipment) -> None:
        if not equipment.sees_gpus:
            os.environ["CUDA_VISIBLE_DEVICES"] = ""
        if equipment.memory_share is not None:
            limit = f"per_process_memory_fraction:{equipment.memory_share:g}"
            os.environ["PYTORCH_ALLOC_CONF"] = ",".join(filter(None, (os.environ.get("PYTORCH_ALLOC_CONF"), limit)))
        folder = equipment.prepare_folder()
        import ray

        from hpo.workers.dispatch.process.child import Child

        self._equipment = equipment
        # The import path is valid only on the driver's machine. Other machines get a copy of the code.
        is_here = ray.get_runtime_context().get_node_id() == equipment.driver
        path = equipment.path if is_here else None
        self._child = Child(folder, equipment.fresh_process, equipment.arguments, path)
        self._node: Any = None
        self._ranks: Any = None
        self._host: Any = None

    def start(self, others: Sequence[Any] = ()) -> tuple[Any, Sequence[Mapping[str, str]]]:
        """Start the child process, and the workers in `others`.

        Args:
            others: the other workers of the group that this worker leads; empty if there is no group.

        Returns:
            The `Host` on which this worker trains, and a list with one dict per worker of the group. A dict has the
            `id` of the worker's node and the fields of `describe_node`. Workers on the driver's node are left out.
        """
        import ray

        from hpo.machine import Host

        starting = [other.start.remote() for other in others]
        self._child.start()
        equipment = self._equipment
        node = ray.get_runtime_context().get_node_id()
        is_away = node != equipment.driver
        found = {"id": node, **describe_node(equipment)} if is_away or equipment.artifacts is not None else None
        if found is not None:
            from hpo.workers.dispatch.transfer import Node
            from hpo.workers.store.disk import DiskStore
            from hpo.workers.store.packing import ObjectStore
            from hpo.workers.store.url import UrlStore

            artifacts = None if equipment.artifacts is None else UrlStore(equipment.artifacts, "study.artifacts")
            objects = ObjectStore(ray.put, ray.get, equipment.most_bytes)
            self._node = Node(self._child, DiskStore(equipment.search), objects, found["node"], artifacts)
        found_elsewhere = [each for _, answer in ray.get(starting) for each in answer]
        if others:
            from hpo.workers.dispatch.ray.ranks import RankGroup

            self._ranks = RankGroup(others, self._child)
        gpus = self.seat().gpus if self._ranks is None else self._ranks.gpus
        self._host = Host(os.uname().nodename, self._child.begin(), gpus)
        return self._host, ([found] if is_away and found is not None else []) + found_elsewhere

    def run(self, payload: Mapping[str, Any], call: str, shipment: Any = None) -> Iterator[dict[str, Any]]:
        """Run a task. Yield the messages of `Child.run` or, if files must be sent, the messages of `Node.run`.

        If a new child process runs the task, first yield a message with the new `host`.
        """
        if (process := self._child.begin()) != self._host.process:
            self._host = replace(self._host, process=process)
            yield {"call": call, "host": self._host}
        # A single process scores a stored model.
        if self._ranks is None or payload["test"] is not None:
            yield from self._train(payload, call, shipment)
        else:
            begin = functools.partial(self._train, payload, call, shipment)
            yield from self._ranks.run((payload, shipment), call, begin)

    def follow(
        self, payload: Mapping[str, Any], shipment: Any, call: str, variables: Mapping[str, str]
    ) -> dict[str, Any]:
        """Run this worker's share of a task that another worker leads.

        Return the last message of `Child.run`, which says how this worker's share ended; see `LAST_MESSAGES`.
        """
        from hpo.workers.dispatch.process.group import last_message

        ending = last_message(self._train(payload, call, shipment, variables))
        if "outcome" in ending and ending["outcome"].error is not None:
            self._child.renew()
        return ending

    def seat(self) -> Any:
        """Return a `Seat` with this worker's node and GPUs."""
        from hpo.workers.dispatch.ray.ranks import seat

        return seat()

    def request_end(self) -> None:
        """Ask the training to save its state and end. The pool or the leading worker calls this while a task runs."""
        (self._child if self._ranks is None else self._ranks).request_end()

    def kill(self) -> None:
        """Kill the child process. The leading worker calls this while `follow` runs."""
        self._child.kill()

    def _train(
        self, payload: Mapping[str, Any], call: str, shipment: Any, variables: Mapping[str, str] | None = None
    ) -> Iterator[dict[str, Any]]:
        from hpo.workers.training.tasks import Payload

        task = Payload(**payload)
        if self._node is None:
            yield from self._child.run(task, call, variables=variables)
        else:
            yield from self._node.run(task, call, shipment or {}, variables)


def describe_node(equipment: Equipment) -> dict[str, str]:
    """Return the name of this node as `node`, and the versions of its software by name.

    If the node cannot import the toolkit, return the reason as `error` instead of the versions.
    """
    node = {"node": f"{socket.gethostname()}"}
    equipment.prepare_folder()
    try:
        from hpo.workers.dispatch.code import describe
    except ImportError as error:
        return node | {"error": str(error)}
    return node | describe(equipment.package)
