"""The workers of a pool. A worker is a single actor, or a group of actors that train each task together."""

import shutil
import sys
import tempfile
import time
import uuid
from collections import deque
from collections.abc import Collection, Mapping
from functools import cached_property
from typing import Any

from hpo.config.sections import DispatchSection
from hpo.errors import DispatchError
from hpo.machine import Host
from hpo.workers.dispatch.code import Code, describe, refuse_unlike, staged
from hpo.workers.dispatch.dispatcher import Setup
from hpo.workers.dispatch.ray import worker as ray_worker
from hpo.workers.dispatch.ray.cluster import RayCluster
from hpo.workers.dispatch.ray.private import draining_nodes, reason
from hpo.workers.dispatch.ray.shares import Shares, refuse_too_many, shares_on
from hpo.workers.objective.path import is_root, whole_path

# An actor must accept calls of `request_end` and `kill` while a task runs.
_CALLS_AT_ONCE = 3
# How often to check for draining nodes.
_CHECK_SECONDS = 2.0
# If less disk space is free, Ray and its workers cannot write their logs.
_LEAST_BYTES = 16 * 2**20


def start_group(setup: Setup) -> tuple[RayCluster, "WorkerGroup"]:
    """Connect to Ray and start one worker for each slot. Return the connection and the workers.

    Raises:
        DispatchError: Ray cannot be used, the workers do not fit on the nodes, or a node has other versions of the code
            than this machine.
        MachineError: Ray cannot start on this machine.
    """
    settings, code = setup.settings, setup.code or Code()
    if settings.address is None and settings.gpus is not None:
        # Check before Ray is started, which takes seconds.
        refuse_too_many("GPU", settings.workers or 1, settings.gpus_per_worker or 0, settings.gpus)
    with staged(code) as folder:
        # Workers of a joined cluster do not inherit this environment, so they need the number of threads.
        own = settings.environment
        environment = {**own, "env_vars": {"OMP_NUM_THREADS": str(settings.threads), **own.get("env_vars", {})}}
        if folder is not None:
            environment["working_dir"] = str(folder)
        cluster = RayCluster(
            settings.address,
            settings.gpus,
            settings.threads,
            settings.allow_open_cluster,
            environment,
            setup.in_use.gpu_numbers,
        )
    import ray

    ray.cloudpickle.register_pickle_by_value(ray_worker)  # type: ignore[no-untyped-call]  # Ray has no types there.
    try:
        shares = shares_on(cluster.nodes, settings, setup.in_use if cluster.is_own else None)
        sends_code = settings.address is not None and bool(code.files)
        equipment = ray_worker.Equipment(
            import_from=None if sends_code else setup.import_from,
            is_toolkits=not sends_code and is_root(setup.import_from),
            package=code.package,
            driver=cluster.driver,
            sees_gpus=shares.gpus > 0,
            memory_share=shares.memory,
            fresh_process=settings.fresh_process,
            search=uuid.uuid4().hex,
            most_bytes=settings.largest_message * 2**20,
            artifacts=setup.artifacts,
            arguments=tuple(sys.argv),
            path=tuple(whole_path(setup.import_from)),
        )
        workers = WorkerGroup(equipment, settings, shares, environment if cluster.is_adopted else None)
        for node in cluster.run_on_others(ray_worker.describe_node, equipment):
            refuse_unlike(workers.versions, node)
    except DispatchError:
        cluster.close()
        raise
    for _ in range(shares.workers):
        workers.start()
    return cluster, workers


class WorkerGroup:
    """Starts workers, keeps track of idle workers, and ends workers."""

    def __init__(
        self,
        equipment: Any,
        settings: DispatchSection,
        shares: Shares,
        environment: Mapping[str, Any] | None = None,
    ) -> None:
        import ray

        self._ray: Any = ray
        self._equipment = equipment
        self._size, self._placement = settings.processes_per_task, settings.process_placement
        self._bundle: Mapping[str, float] = {"CPU": settings.cpus_per_worker, "GPU": shares.gpus}
        needs: dict[str, Any] = {"num_cpus": self._bundle["CPU"], "num_gpus": self._bundle["GPU"]}
        if environment is not None:
            needs["runtime_env"] = dict(environment)
        self._type = self._ray.remote(max_restarts=0, max_concurrency=_CALLS_AT_ONCE, **needs)(ray_worker.RayWorker)
        self._all: set[Any] = set()
        self._groups: dict[Any, Any] = {}
        # By worker, the ids of its nodes, except the driver's node.
        self._nodes: dict[Any, set[str]] = {}
        self.hosts: dict[Any, Host] = {}  # where each worker trains
        self.shares = shares
        self._num_failed_starts, self._last_check = 0, 0.0
        # Workers that have not reported their start yet, by their pending answers. On a lost node a worker never does.
        self.starting: dict[Any, Any] = {}
        self.idle: deque[Any] = deque()

    @property
    def needs(self) -> str:
        """The resources that each worker needs, as text, such as `1 CPU and 0.5 GPU`."""
        one = f"{self._bundle['CPU']:g} CPU and {self._bundle['GPU']:g} GPU"
        spread = " on as many nodes" if self._placement == "strict_spread" else ""
        return one if self._size == 1 else f"{self._size} times {one}{spread}"

    @property
    def free(self) -> str:
        """The free resources of the cluster, as text, such as `4 CPU and 1 GPU`."""
        free = self._ray.available_resources()
        return f"{free.get('CPU', 0):g} CPU and {free.get('GPU', 0):g} GPU"

    def start(self) -> None:
        """Start a worker without waiting for its answer; see `add_started`."""
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

    def add_started(self, answer: Any) -> None:
        """Make a worker idle after its start. If the start failed, start another worker instead.

        Raises:
            DispatchError: too many starts have failed, or a node has other versions of the code than this machine.
        """
        worker = self.starting.pop(answer)
        try:
            self.hosts[worker], found = self._ray.get(answer)
        except self._ray.exceptions.RayError as error:
            self._num_failed_starts += 1
            if self._num_failed_starts > 2 * self.shares.workers:
                raise DispatchError(f"dispatch: the workers cannot start: {reason(error)}; {_start_hint()}") from error
            self._remove(worker)
            self.start()
            return
        self._num_failed_starts = 0
        for node in found:
            refuse_unlike(self.versions, node)
            self._nodes.setdefault(worker, set()).add(node["id"])
        self.idle.append(worker)

    @cached_property
    def versions(self) -> Mapping[str, str]:
        """The versions of software on this machine. All nodes must have the same versions."""
        return describe(self._equipment.package)

    def is_away(self, worker: Any) -> bool:
        """Return whether any process of the worker is on a node other than the driver's."""
        return worker in self._nodes

    def draining_workers(self) -> Collection[Any]:
        """Return the workers with processes on nodes that will be taken away. The driver's node does not count.

        Ask Ray at most every two seconds; calls in between return an empty collection.
        """
        if not self._nodes or time.monotonic() - self._last_check < _CHECK_SECONDS:
            return ()
        self._last_check = time.monotonic()
        draining = draining_nodes()
        return [worker for worker, nodes in self._nodes.items() if not nodes.isdisjoint(draining)]

    def replace(self, worker: Any) -> None:
        """Kill a worker and start another worker."""
        self.end(worker)
        self.start()

    def end(self, worker: Any) -> None:
        """Kill a worker; if it is a group of actors, kill all of them."""
        self._nodes.pop(worker, None)
        self.hosts.pop(worker, None)
        self._ray.kill(worker)
        self._remove(worker)

    def kill_all(self) -> None:
        """Kill all workers, but leave Ray running."""
        for worker in self._all:
            self._ray.kill(worker)
        for worker in list(self._groups):
            self._remove(worker)

    def _remove(self, worker: Any) -> None:
        from ray.util.placement_group import remove_placement_group

        if worker in self._groups:
            remove_placement_group(self._groups.pop(worker))


def _start_hint() -> str:
    """Return advice for workers that cannot start: free disk space, or check the installation of hpo."""
    folder = tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    if free < _LEAST_BYTES:
        return f"{folder}, where Ray keeps its files, has {free:,} bytes free: make room there, or set TMPDIR"
    return "check that hpo is installed on every node"
