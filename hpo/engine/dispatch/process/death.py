"""How a training process died, in words."""

from collections.abc import Mapping
from typing import Any


def how(death: Mapping[str, Any]) -> str:
    """Return how a process died, as `Child.run` and `Group.run` tell it."""
    who = f"rank {death['rank']}" if "rank" in death else "worker"
    if death["out_of_step"]:
        return f"{who} ended: its message did not belong to its task"
    if death["signal"] is not None:
        return f"{who} died (signal {death['signal']})"
    return f"{who} died (exit code {death['exit_code']})"
