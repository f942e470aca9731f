"""The actor that a Ray worker process holds: it lives as long as the study and runs one task at a time."""

from collections.abc import Iterator, Mapping
from typing import Any

from hpo.worker import Message, run_task


class RayWorker:
    """Runs tasks one after another, so that torch and the data are loaded once a worker and not once a trial."""

    def __init__(self, import_from: str | None) -> None:
        self._import_from = import_from

    def run(self, payload: Mapping[str, Any]) -> Iterator[Message]:
        """Yield the messages of `hpo.worker.run_task`."""
        yield from run_task(payload, self._import_from)
