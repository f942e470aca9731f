"""The actor in a Ray worker process. It lives as long as the search and runs one task at a time.

Ray puts the driver's working directory first on the path of its workers, and a user may have an `hpo.py` there. So Ray
sends this class by value, and this file imports the toolkit only after it has removed that entry.
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
    """The settings that all workers of a search share."""

    # The folder to import the objective from, in addition to installed packages; None = the folder of the sent code.
    import_from: str | None = None
    is_toolkits: bool = False  # whether the toolkit itself is imported from that folder
    package: str | None = None  # the installed package that has the objective, unless that is the toolkit
    driver: str = ""  # Ray's id of the driver's node; workers on this node can use the driver's disk
    sees_gpus: bool = True  # whether a worker has a share of the machine's GPUs; else it sees none
    # The share of a GPU's memory that a worker's training may hold, by torch's allocator; None = all.
    memory_share: float | None = None
    fresh_process: bool = False  # whether each task gets a new process
    search: str = ""  # the unique id of this run of the search
    most_bytes: int = 0  # the largest size of a state or model that is sent to the driver
    artifacts: str | None = None  # the URL where states and models are stored; None = they are sent to the driver
    arguments: Sequence[str] = ()  # the command line of the search
    path: Sequence[str] = ()  # what the search's process can import; see `whole_path`

    def prepare_folder(self) -> str:
        """Remove the folder to import from from `sys.path`, where its modules might hide the toolkit's; return it."""
        folder = self.import_from or str(os.getcwd())  # noqa: PTH109 -- see the top of the file
        if not self.is_toolkits:
            resolved = os.path.realpath(folder)
            sys.path[:] = [entry for entry in sys.path if os.path.realpath(entry) != resolved]
        return folder


class RayWorker:
    """Trains in a child process, so that the worker survives faults of tasks and can report how the child died."""

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
        # The paths are valid only on the driver's machine. The other machines get the code.
        is_here = ray.get_runtime_context().get_node_id() == equipment.driver
        path = equipment.path if is_here else None
        self._child = Child(folder, equipment.fresh_process, equipment.arguments, path)
        self._node: Any = None
        self._ranks: Any = None
        self._host: Any = None

    def start(self, others: Sequence[Any] = ()) -> tuple[Any, Sequence[Mapping[str, str]]]:
        """Start the child.

        Args:
            others: the other workers of the group that this worker leads; empty for a single worker.

        Returns:
            The `Host` where it trains; and for each worker on another node than the driver's, the node's `id` and its
            versions (see `describe_node`).
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
        """Yield the messages of `Child.run`, or those of `Node.run` if files must be sent.

        If the process is not the one of the last task, yield its `host` first.
        """
        if (process := self._child.begin()) != self._host.process:
            self._host = replace(self._host, process=process)
            yield {"call": call, "host": self._host}
        # A single process scores the test split.
        if self._ranks is None or payload["test"] is not None:
            yield from self._train(payload, call, shipment)
        else:
            begin = functools.partial(self._train, payload, call, shipment)
            yield from self._ranks.run((payload, shipment), call, begin)

    def follow(
        self, payload: Mapping[str, Any], shipment: Any, call: str, variables: Mapping[str, str]
    ) -> dict[str, Any]:
        """Run a task that another worker leads; return its last message."""
        from hpo.workers.dispatch.process.group import last_message

        ending = last_message(self._train(payload, call, shipment, variables))
        if "outcome" in ending and ending["outcome"].error is not None:
            self._child.renew()
        return ending

    def seat(self) -> Any:
        """Return this worker's node and GPUs, a `Seat`."""
        from hpo.workers.dispatch.ray.ranks import seat

        return seat()

    def request_end(self) -> None:
        """Let the training save its state and end. Call it while `run` or `follow` runs."""
        (self._child if self._ranks is None else self._ranks).request_end()

    def kill(self) -> None:
        """Kill the child. Call it while `follow` runs."""
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
    """Return the name of this `node` and its versions, or an `error` if it cannot import the toolkit."""
    node = {"node": f"{socket.gethostname()}"}
    equipment.prepare_folder()
    try:
        from hpo.workers.dispatch.code import describe
    except ImportError as error:
        return node | {"error": str(error)}
    return node | describe(equipment.package)
