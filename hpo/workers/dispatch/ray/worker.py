"""The actor in a Ray worker process: it lives as long as the study and runs one task at a time.

Ray puts the driver's working directory, where a user may have an `hpo.py`, first on the path of its workers. So Ray
sends the class itself, and this file imports the toolkit only after that entry is removed.
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
    """What every worker of a study is told."""

    # The folder to import the objective from besides the installed packages; None = the one that came with the code.
    import_from: str | None = None
    is_toolkits: bool = False  # whether the toolkit itself is imported from that folder
    package: str | None = None  # the installed package that has the objective, if another than the toolkit
    driver: str = ""  # Ray's name of the node that the driver is on, whose workers see its disk
    sees_gpus: bool = True  # whether a worker has a share of the machine's GPUs; else it sees none of them
    # The part of a GPU's memory that a worker's training may hold, by torch's allocator; None = all.
    memory_share: float | None = None
    fresh_process: bool = False  # whether each task has a process of its own
    search: str = ""  # the id of this run of the search, which no other has, whatever its study is called
    most_bytes: int = 0  # of a state or a model that is sent back to the driver
    artifacts: str | None = None  # the URL where states and models are kept instead; None = they are sent
    arguments: Sequence[str] = ()  # the command line of the search
    path: Sequence[str] = ()  # what the search's process can import, as `whole_path` returns it

    def folder(self) -> str:
        """Return the folder to import from here, after it was taken out of the toolkit's way."""
        folder = self.import_from or str(os.getcwd())  # noqa: PTH109 -- see the top of the file
        if not self.is_toolkits:
            in_the_way = os.path.realpath(folder)
            sys.path[:] = [entry for entry in sys.path if os.path.realpath(entry) != in_the_way]
        return folder


class RayWorker:
    """Lets a child process train, so that it survives faults of tasks and can report how the child died."""

    def __init__(self, equipment: Equipment) -> None:
        if not equipment.sees_gpus:
            os.environ["CUDA_VISIBLE_DEVICES"] = ""
        if equipment.memory_share is not None:
            limit = f"per_process_memory_fraction:{equipment.memory_share:g}"
            os.environ["PYTORCH_ALLOC_CONF"] = ",".join(filter(None, (os.environ.get("PYTORCH_ALLOC_CONF"), limit)))
        folder = equipment.folder()
        import ray

        from hpo.workers.dispatch.process.child import Child

        self._equipment = equipment
        # Another machine may have other folders at these places; there the code was sent.
        is_here = ray.get_runtime_context().get_node_id() == equipment.driver
        path = equipment.path if is_here else None
        self._child = Child(folder, equipment.fresh_process, equipment.arguments, path)
        self._node: Any = None
        self._team: Any = None
        self._host: Any = None

    def start(self, others: Sequence[Any] = ()) -> tuple[Any, Sequence[Mapping[str, str]]]:
        """Start the child, and the `others` that train every task together with this one, which leads.

        Returns:
            Where it trains, a `Host`; and of each on another node than the driver's the node's `id`, and what it has;
            see `look`.
        """
        import ray

        from hpo.machine import Host

        begun = [other.start.remote() for other in others]
        self._child.start()
        told = self._equipment
        node = ray.get_runtime_context().get_node_id()
        is_away = node != told.driver
        found = {"id": node, **look(told)} if is_away or told.artifacts is not None else None
        if found is not None:
            from hpo.workers.dispatch.transfer import Node
            from hpo.workers.store.disk import DiskStore
            from hpo.workers.store.packing import ObjectStore
            from hpo.workers.store.url import UrlStore

            artifacts = None if told.artifacts is None else UrlStore(told.artifacts, "study.artifacts")
            objects = ObjectStore(ray.put, ray.get, told.most_bytes)
            self._node = Node(self._child, DiskStore(told.search), objects, found["node"], artifacts)
        found_elsewhere = [each for _, answer in ray.get(begun) for each in answer]
        if others:
            from hpo.workers.dispatch.ray.ranks import RankGroup

            self._team = RankGroup(others, self._child)
        gpus = self.seat().gpus if self._team is None else self._team.gpus
        self._host = Host(os.uname().nodename, self._child.begin(), gpus)
        return self._host, ([found] if is_away and found is not None else []) + found_elsewhere

    def run(self, payload: Mapping[str, Any], call: str, shipment: Any = None) -> Iterator[dict[str, Any]]:
        """Yield the messages of `Child.run`, or those of `Node.run` where files have to be moved.

        Where it trains in another process than the last one, it yields that first.
        """
        if (process := self._child.begin()) != self._host.process:
            self._host = replace(self._host, process=process)
            yield {"call": call, "host": self._host}
        # The test part is scored by one process.
        if self._team is None or payload["test"] is not None:
            yield from self._trained(payload, call, shipment)
        else:
            begin = functools.partial(self._trained, payload, call, shipment)
            yield from self._team.run((payload, shipment), call, begin)

    def follow(
        self, payload: Mapping[str, Any], shipment: Any, call: str, variables: Mapping[str, str]
    ) -> dict[str, Any]:
        """Run a task that another worker leads; return its last message."""
        from hpo.workers.dispatch.process.group import last_message

        ending = last_message(self._trained(payload, call, shipment, variables))
        if "outcome" in ending and ending["outcome"].error is not None:
            self._child.renew()
        return ending

    def seat(self) -> Any:
        """Return where this worker is, a `Seat`."""
        from hpo.workers.dispatch.ray.ranks import seat

        return seat()

    def request_end(self) -> None:
        """Let the training save its state and end; while `run` or `follow` runs."""
        (self._child if self._team is None else self._team).request_end()

    def kill(self) -> None:
        """Kill the child; while `follow` runs."""
        self._child.kill()

    def _trained(
        self, payload: Mapping[str, Any], call: str, shipment: Any, variables: Mapping[str, str] | None = None
    ) -> Iterator[dict[str, Any]]:
        from hpo.workers.training.tasks import Payload

        task = Payload(**payload)
        if self._node is None:
            yield from self._child.run(task, call, variables=variables)
        else:
            yield from self._node.run(task, call, shipment or {}, variables)


def look(equipment: Equipment) -> dict[str, str]:
    """Return the name of this `node`, and the versions that it has; `error` where the toolkit is not there."""
    node = {"node": f"{socket.gethostname()}"}
    equipment.folder()
    try:
        from hpo.workers.dispatch.code import describe
    except ImportError as error:
        return node | {"error": str(error)}
    return node | describe(equipment.package)
