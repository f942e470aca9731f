"""How many workers fit on the machines of a cluster, and which share of a GPU each of them has."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from hpo.config.sections import DispatchSection
from hpo.errors import DispatchError

# Ray counts in parts of 1/10,000.
_PARTS = 10_000
_TINY = 1e-9


@dataclass(frozen=True)
class Node:
    """What a machine of the cluster offers."""

    cpus: float
    gpus: float


@dataclass(frozen=True)
class Shares:
    """What each worker gets.

    Attributes:
        workers: their number.
        gpus: of each: a fraction of one, or a whole number.
        memory: the part of a GPU's memory that each may hold; None = all of it.
    """

    workers: int
    gpus: float
    memory: float | None = None


def shares_on(nodes: Sequence[Node], settings: DispatchSection) -> Shares:
    """Return the shares: as configured; left open, as many workers as fit, one for each GPU where there are any.

    With more workers than GPUs each has the same fraction of one.

    Raises:
        DispatchError: they do not fit; a worker's CPUs and GPUs must be on one node.
    """
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


def refuse_too_many(kind: str, workers: int, each: float, there: float) -> None:
    """Raise DispatchError where the workers need more CPUs, or GPUs, than there are on all nodes together."""
    if workers * each > there + _TINY:
        key = f"dispatch.{kind.lower()}s_per_worker"
        raise DispatchError(
            f"{key}: {workers} worker(s) of {each:g} {kind} need {workers * each:g}, there are {there:g}; "
            f"lower {key} or dispatch.workers"
        )


def _fit(node: Node, cpus: float, gpus: float) -> int:
    """Return how many workers fit on a node; a fraction of a GPU is of one GPU."""
    by_cpus = math.floor(node.cpus / cpus + _TINY)
    if gpus == 0:
        return by_cpus
    by_gpus = math.floor(node.gpus) * math.floor(1 / gpus + _TINY) if gpus < 1 else math.floor(node.gpus / gpus + _TINY)
    return min(by_cpus, by_gpus)
