"""How many workers fit on the machines of a cluster, and which share of their GPUs each of them has."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from hpo.config.sections import DispatchSection
from hpo.errors import DispatchError
from hpo.workers.dispatch.other_searches import Use

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


def shares_on(nodes: Sequence[Resources], settings: DispatchSection, in_use: Use | None = None) -> Shares:
    """Return the shares: as configured; left open, as many workers as fit, one for each GPU where there are any.

    With more workers than GPUs each has the same fraction of one. Where tasks are of several processes, each of these
    has whole GPUs. DispatchError where they do not fit; the CPUs and GPUs of a process must be on one node. Of a single
    node that is in use, as many workers fit as are left, at least one.
    """
    size, apart = settings.processes_per_task, settings.process_placement == "strict_spread"
    gpus_there = sum(node.gpus for node in nodes)
    gpus = settings.gpus_per_worker if size == 1 else settings.gpus_per_process
    if gpus is None and size > 1:
        gpus = int(gpus_there > 0)
    elif gpus is None:
        on_each = math.ceil((settings.workers or 1) / gpus_there) if gpus_there else 0
        gpus = 0.0 if not on_each else math.floor(_PARTS / on_each) / _PARTS
    fit = [_fit(node, settings.cpus_per_worker, gpus) for node in nodes]
    fits = sum(fit) // size
    if apart and size > 1:
        fits = max(n for n in range(fits + 1) if sum(min(n, on_node) for on_node in fit) >= n * size)
    left = fits
    if in_use is not None:
        (node,) = nodes
        free = Resources(max(node.cpus - in_use.cpus, 0.0), max(node.gpus - in_use.gpus, 0.0))
        left = min(fits, _fit(free, settings.cpus_per_worker, gpus) // size)
    workers = settings.workers or max(left, 1)
    if workers > fits:
        key, each = "dispatch.workers", f"{settings.cpus_per_worker:g} CPU and {gpus:g} GPU each"
        where, lower = "a worker is on one node", "dispatch.cpus_per_worker or dispatch.gpus_per_worker"
        if size == 1:
            refuse_too_many("CPU", workers, settings.cpus_per_worker, sum(node.cpus for node in nodes))
            refuse_too_many("GPU", workers, gpus, gpus_there)
        else:
            key, each = "dispatch.processes_per_task", f"{size} processes of {each}"
            where = "each process is on a node of its own" if apart else "a process is on one node"
            lower = f"{key}, dispatch.cpus_per_worker or dispatch.gpus_per_process"
        there = ", ".join(f"{node.cpus:g} and {node.gpus:g}" for node in nodes)
        raise DispatchError(
            f"{key}: {workers} worker(s) of {each} do not fit, {fits} do: {where}, and the nodes have {there}; lower "
            f"dispatch.workers, {lower}"
        )
    share = gpus if 0 < gpus < 1 else None
    return Shares(workers, gpus, settings.memory_per_worker or share if size == 1 else None)


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
