"""The workers of a pool: each alone wherever there is room, or a team that trains every task together."""

import time
from collections import deque
from collections.abc import Collection, Mapping
from typing import Any

from hpo.config.sections import DispatchSection
from hpo.engine.dispatch.away.likeness import describe, refuse_unlike
from hpo.engine.dispatch.ray.private import draining_nodes
from hpo.engine.dispatch.ray.reasons import reason, start_hint
from hpo.engine.dispatch.ray.shares import Shares
from hpo.errors import DispatchError

# Beside its task a worker is told to end it, or to kill it.
_CALLS_AT_ONCE = 3
# Between two questions whether a node will be taken away.
_LOOK_SECONDS = 2.0


class Crew:
    """Starts workers, holds those that are idle, and ends them.

    Attributes:
        starting: the workers that have not answered yet, by their answers: if nodes were lost, some never do.
        idle: those without a task.
    """

    def __init__(
        self,
        kind: Any,
        equipment: Any,
        settings: DispatchSection,
        shares: Shares,
        environment: Mapping[str, Any] | None = None,
    ) -> None:
        import ray

        self._ray: Any = ray
        self._equipment = equipment
        self._size, self._placement = settings.processes_per_task, settings.process_placement
        needs: dict[str, Any] = {"num_cpus": settings.cpus_per_worker, "num_gpus": shares.gpus}
        if environment is not None:
            needs["runtime_env"] = dict(environment)
        self._all: set[Any] = set()
        self._type = self._ray.remote(max_restarts=0, max_concurrency=_CALLS_AT_ONCE, **needs)(kind)
        self._bundle: Mapping[str, float] = {"CPU": settings.cpus_per_worker, "GPU": shares.gpus}
        self._groups: dict[Any, Any] = {}
        # The names of the nodes of each worker that has processes on others than the driver's.
        self._nodes: dict[Any, set[str]] = {}
        self._here: Mapping[str, str] = {}
        self.shares = shares
        self._num_failed_starts, self._last_look = 0, 0.0
        self.starting: dict[Any, Any] = {}
        self.idle: deque[Any] = deque()

    @property
    def needs(self) -> str:
        """What each worker needs, in words."""
        one = f"{self._bundle['CPU']:g} CPU and {self._bundle['GPU']:g} GPU"
        apart = " on as many nodes" if self._placement == "strict_spread" else ""
        return one if self._size == 1 else f"{self._size} times {one}{apart}"

    @property
    def free(self) -> str:
        """What the cluster has left, in words."""
        free = self._ray.available_resources()
        return f"{free.get('CPU', 0):g} CPU and {free.get('GPU', 0):g} GPU"

    def start(self) -> None:
        """Start a worker; its answer comes later."""
        if self._size == 1:
            worker = self._type.remote(self._equipment)
            self._all.add(worker)
            self.starting[worker.start.remote()] = worker
            return
        from ray.util.placement_group import placement_group
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        bundle = {name: number for name, number in self._bundle.items() if number}
        group = placement_group([bundle] * self._size, strategy=self._placement.upper())
        places = [PlacementGroupSchedulingStrategy(group, number) for number in range(self._size)]
        leader, *others = [self._type.options(scheduling_strategy=place).remote(self._equipment) for place in places]
        self._groups[leader] = group
        self._all |= {leader, *others}
        self.starting[leader.start.remote(others)] = leader

    def take_on(self, answer: Any) -> None:
        """Add the worker that has answered to the idle ones, or start another if it could not start.

        Raises:
            DispatchError: too many could not, or its node has other versions than this machine.
        """
        worker = self.starting.pop(answer)
        try:
            found = self._ray.get(answer)
        except self._ray.exceptions.RayError as error:
            self._num_failed_starts += 1
            if self._num_failed_starts > 2 * self.shares.workers:
                raise DispatchError(f"dispatch: the workers cannot start: {reason(error)}; {start_hint()}") from error
            self._remove(worker)
            self.start()
            return
        self._num_failed_starts = 0
        for node in found:
            self.refuse_unlike(node)
            self._nodes.setdefault(worker, set()).add(node["id"])
        self.idle.append(worker)

    def refuse_unlike(self, found: Mapping[str, str]) -> None:
        """Raise DispatchError for a node that has other versions than this machine."""
        if "error" in found:
            raise DispatchError(
                f"dispatch.address: node {found['node']} cannot import hpo: {found['error']}; install it"
            )
        self._here = self._here or describe(self._equipment.package)
        refuse_unlike(self._here, found, found["node"])

    def is_away(self, worker: Any) -> bool:
        """Return whether a process of the worker is on another node than the driver."""
        return worker in self._nodes

    def leaving(self) -> Collection[Any]:
        """Return the workers on nodes that will be taken away; now and then, since Ray is asked."""
        if not self._nodes or time.monotonic() - self._last_look < _LOOK_SECONDS:
            return ()
        self._last_look = time.monotonic()
        draining = draining_nodes()
        return [worker for worker, nodes in self._nodes.items() if not nodes.isdisjoint(draining)]

    def replace(self, worker: Any) -> None:
        """Kill a worker and start another."""
        self.end(worker)
        self.start()

    def end(self, worker: Any) -> None:
        """Kill a worker, with all of its team."""
        self._nodes.pop(worker, None)
        self._ray.kill(worker)
        self._remove(worker)

    def dismiss(self) -> None:
        """Kill all workers, whose Ray goes on."""
        for worker in self._all:
            self._ray.kill(worker)
        for worker in list(self._groups):
            self._remove(worker)

    def _remove(self, worker: Any) -> None:
        from ray.util.placement_group import remove_placement_group

        if worker in self._groups:
            remove_placement_group(self._groups.pop(worker))
