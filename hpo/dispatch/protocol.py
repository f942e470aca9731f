"""What every dispatcher is: it takes tasks and gives back what their workers report."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from hpo.trials import Outcome, Task


@dataclass(frozen=True)
class Report:
    """One message from a worker: a point of a task's learning curve, or the task's outcome."""

    task: Task
    point: Mapping[str, Any] | None = None
    outcome: Outcome | None = None


class Dispatcher(Protocol):
    """Runs tasks. A failure is an outcome, never an exception."""

    @property
    def slots(self) -> int:
        """How many tasks run at once."""
        ...

    def submit(self, task: Task) -> None:
        """Take a task; it starts as soon as a slot is free."""
        ...

    def wait(self, timeout: float | None = None) -> Sequence[Report]:
        """Block until a worker reports, and return all reports at hand in the order they were made.

        Returns an empty sequence when nothing was reported within `timeout` seconds, or nothing runs.
        """
        ...

    def close(self) -> None:
        """Stop the workers; tasks that still run are dropped."""
        ...
