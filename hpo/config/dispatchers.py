"""The dispatchers by name: where each one's class is, and what others need to know of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

DispatcherName = Literal["local", "ray", "simulated"]


@dataclass(frozen=True, kw_only=True)
class DispatcherType:
    """A dispatcher, whose class is imported only where it is used.

    Attributes:
        path: `package.module:Class`.
        is_one_at_a_time: whether it runs one task at a time, whatever `dispatch.workers` says.
        has_own_processes: whether tasks run in processes of its own, which may be on other machines and have shares of
            GPUs.
        has_own_time: whether its seconds are none that pass.
    """

    path: str
    is_one_at_a_time: bool = False
    has_own_processes: bool = False
    has_own_time: bool = False


DISPATCHERS: Mapping[DispatcherName, DispatcherType] = {
    "local": DispatcherType(path="hpo.engine.dispatch.local:LocalDispatcher", is_one_at_a_time=True),
    "ray": DispatcherType(path="hpo.engine.dispatch.ray.pool:RayDispatcher", has_own_processes=True),
    "simulated": DispatcherType(path="hpo.engine.dispatch.simulated:SimulatedDispatcher", has_own_time=True),
}
