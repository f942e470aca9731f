"""How many workers fit on the machines of a cluster, and which share of their GPUs each of them has."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from hpo.config.sections import DispatchSection
from hpo.errors import DispatchError

# Ray counts in parts of 1/10,000.
_PARTS = 10_000
_TINY = 1e-9


@dataclass(frozen=True)
class Resources:
    """What a machine of the cluster offers."""

    cpus: float
    gpus: float


@dataclass(frozen=True)
class Shares:
    """What each worker gets."""

    workers: int  # their number; each trains one task at a time
    gpus: float  # of each, or of each of its processes: a fraction of one, or a whole number
    memory: float | None = None  # the part of a GPU's memory that each may hold; None = all of it


def shares_on(nodes: Sequence[Resources], settings: DispatchSection) -> Shares:
    """Return the shares: as configured; left open, as many workers as fit, one for each GPU where there are any.

    With more workers than GPUs each has the same fraction of one. Where tasks are of several processes, each of these
    has whole GPUs.

    Raises:
        DispatchError: they do not fit; the CPUs and GPUs of a process must be on one node.
    """
    if settings.processes_per_task > 1:
        return _shares_of_teams(nodes, settings)
    gpus_there = sum(node.gpus for node in nodes)
    gpus = settings.gpus_per_worker
    if gpus is None:
        on_each = math.ceil((settings.workers or 1) / gpus_there) if gpus_there else 0
        gpus = 0.0 if not on_each else math.floor(_PARTS / on_each) / _PARTS
    fits = sum(_fit(node, settings.cpus_per_worker, gpus) for node in nodes)
    workers = settings.workers or max(fits, 1)
    if workers > fits:
        refuse_too_many("CPU", workers, settings.cpus_per_worker, sum(node.cpus for node in nodes))
        refuse_too_many("GPU", workers, gpus, gpus_there)
        each = f"{settings.cpus_per_worker:g} CPU and {gpus:g} GPU"
        there = ", ".join(f"{node.cpus:g} and {node.gpus:g}" for node in nodes)
        raise DispatchError(
            f"dispatch.workers: {workers} worker(s) of {each} each do not fit, {fits} do: a worker is on one node, and "
            f"the nodes have {there}; lower dispatch.workers, dispatch.cpus_per_worker or dispatch.gpus_per_worker"
        )
    return Shares(workers, gpus, settings.memory_per_worker or (gpus if 0 < gpus < 1 else None))


def _shares_of_teams(nodes: Sequence[Resources], settings: DispatchSection) -> Shares:
    size, apart = settings.processes_per_task, settings.process_placement == "strict_spread"
    gpus = settings.gpus_per_process
    if gpus is None:
        gpus = int(any(node.gpus for node in nodes))
    on_each = [_fit(node, settings.cpus_per_worker, gpus) for node in nodes]
    if apart:
        fits = max(n for n in range(sum(on_each) // size + 1) if sum(min(n, fit) for fit in on_each) >= n * size)
    else:
        fits = sum(on_each) // size
    workers = settings.workers or max(fits, 1)
    if workers > fits:
        there = ", ".join(f"{node.cpus:g} and {node.gpus:g}" for node in nodes)
        each = f"{settings.cpus_per_worker:g} CPU and {gpus:g} GPU each"
        raise DispatchError(
            f"dispatch.processes_per_task: {workers} worker(s) of {size} processes of {each} do not fit, {fits} do: "
            f"{'each process is on a node of its own' if apart else 'a process is on one node'}, and the nodes have "
            f"{there}; lower dispatch.workers, dispatch.processes_per_task, dispatch.cpus_per_worker or "
            f"dispatch.gpus_per_process"
        )
    return Shares(workers, gpus)


def refuse_too_many(kind: str, workers: int, each: float, there: float) -> None:
    """Raise DispatchError where the workers need more CPUs, or GPUs, than there are on all nodes together."""
    if workers * each > there + _TINY:
        key = f"dispatch.{kind.lower()}s_per_worker"
        raise DispatchError(
            f"{key}: {workers} worker(s) of {each:g} {kind} need {workers * each:g}, there are {there:g}; "
            f"lower {key} or dispatch.workers"
        )


def _fit(node: Resources, cpus: float, gpus: float) -> int:
    """Return how many workers fit on a node; a fraction of a GPU is of one GPU."""
    by_cpus = math.floor(node.cpus / cpus + _TINY)
    if gpus == 0:
        return by_cpus
    by_gpus = math.floor(node.gpus) * math.floor(1 / gpus + _TINY) if gpus < 1 else math.floor(node.gpus / gpus + _TINY)
    return min(by_cpus, by_gpus)
