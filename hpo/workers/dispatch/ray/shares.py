"""Computes how many workers fit on the machines of a cluster, and the share of the GPUs that each worker gets."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from hpo.config.sections import DispatchSection
from hpo.errors import DispatchError
from hpo.formatting import format_count
from hpo.workers.dispatch.other_searches import Use

# Ray counts resources in units of 1/10,000.
_PARTS = 10_000
_TINY = 1e-9


@dataclass(frozen=True)
class Resources:
    """The numbers of CPUs and GPUs of one machine of the cluster."""

    cpus: float
    gpus: float


@dataclass(frozen=True)
class Shares:
    """The number of workers, and the resources of each worker."""

    workers: int  # number of workers; each trains one task at a time
    gpus: float  # number of GPUs per process of a worker: a fraction below 1, or a whole number
    memory: float | None = None  # the share of a GPU's memory that each worker may hold; None = all


def shares_on(nodes: Sequence[Resources], settings: DispatchSection, in_use: Use | None = None) -> Shares:
    """Return the number of workers and the resources of each worker.

    By default, there are as many workers as fit on the cluster, but at least 1. If the cluster has GPUs, each worker
    has one GPU. If more workers than GPUs are configured, each worker has the same fraction of a GPU. If a task has
    several processes, each process has whole GPUs. All CPUs and GPUs of a process must be on one node.

    Args:
        nodes: the machines of the cluster.
        settings: the section `dispatch` of the configuration.
        in_use: the CPUs and GPUs that other searches use, if the cluster is a single node. The default number of
            workers leaves these CPUs and GPUs free, but is at least 1. None = ignore other searches.

    Raises:
        DispatchError: the workers do not fit on the nodes, even if no other search runs.
    """
    size, is_spread = settings.processes_per_task, settings.process_placement == "strict_spread"
    num_gpus = sum(node.gpus for node in nodes)
    gpus = settings.gpus_per_worker if size == 1 else settings.gpus_per_process
    if gpus is None and size > 1:
        gpus = int(num_gpus > 0)
    elif gpus is None:
        on_each = math.ceil((settings.workers or 1) / num_gpus) if num_gpus else 0
        gpus = 0.0 if not on_each else math.floor(_PARTS / on_each) / _PARTS
    fit = [_fit(node, settings.cpus_per_worker, gpus) for node in nodes]
    fits = sum(fit) // size
    if is_spread and size > 1:
        fits = max(n for n in range(fits + 1) if sum(min(n, on_node) for on_node in fit) >= n * size)
    left = fits
    if in_use is not None:
        (node,) = nodes
        free = Resources(max(node.cpus - in_use.cpus, 0.0), max(node.gpus - in_use.gpus, 0.0))
        left = min(fits, _fit(free, settings.cpus_per_worker, gpus) // size)
    workers = settings.workers or max(left, 1)
    if workers > fits:
        key, each = "dispatch.workers", f"{settings.cpus_per_worker:g} CPU and {gpus:g} GPU each"
        where = "a worker cannot use several nodes"
        lower = "dispatch.workers, dispatch.cpus_per_worker or dispatch.gpus_per_worker"
        if size == 1:
            refuse_too_many("CPU", workers, settings.cpus_per_worker, sum(node.cpus for node in nodes))
            refuse_too_many("GPU", workers, gpus, num_gpus)
        else:
            key, each = "dispatch.processes_per_task", f"{size} processes of {each}"
            where = "each process needs a separate node" if is_spread else "a process cannot use several nodes"
            lower = f"dispatch.workers, {key}, dispatch.cpus_per_worker or dispatch.gpus_per_process"
        offered = ", ".join(f"{node.cpus:g} CPU and {node.gpus:g} GPU" for node in nodes)
        raise DispatchError(
            f"{key}: the nodes must have room for {format_count(workers, 'worker*')} with {each}, but only {fits} fit, "
            f"because {where}; the nodes have {offered}; lower {lower}"
        )
    share = gpus if 0 < gpus < 1 else None
    return Shares(workers, gpus, settings.memory_per_worker or share)


def refuse_too_many(kind: str, workers: int, each: float, total: float) -> None:
    """Raise DispatchError if all workers together need more resources than all nodes have. `kind` is CPU or GPU."""
    if workers * each > total + _TINY:
        key = f"dispatch.{kind.lower()}s_per_worker"
        raise DispatchError(
            f"{key}: {format_count(workers, 'worker*')} of {each:g} {kind} would need {workers * each:g} {kind}, but "
            f"the nodes have {total:g}; lower {key} or dispatch.workers"
        )


def _fit(node: Resources, cpus: float, gpus: float) -> int:
    """Return how many processes fit on a node. A process with a fraction of a GPU cannot use two GPUs."""
    by_cpus = math.floor(node.cpus / cpus + _TINY)
    if gpus == 0:
        return by_cpus
    by_gpus = math.floor(node.gpus) * math.floor(1 / gpus + _TINY) if gpus < 1 else math.floor(node.gpus / gpus + _TINY)
    return min(by_cpus, by_gpus)
