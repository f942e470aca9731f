"""A dispatcher whose workers have all started, for travel.py: runs tasks, and counts what travels."""

import contextlib
import secrets
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import yaml

from benchmarks.shared.places import CONF
from benchmarks.shared.printing import expect
from hpo.config.sections import DispatchSection
from hpo.trials.trial import Outcome
from hpo.workers.dispatch.code import Code
from hpo.workers.dispatch.dispatcher import Setup, make_dispatcher
from hpo.workers.store.packing import Content, ObjectStore
from hpo.workers.training.tasks import Payload, Task

# A module of the user's own, which travels to the nodes.
OBJECTIVE = """
import time
from pathlib import Path

def wait(task):
    "Says that it has begun, then waits until the driver has seen that all have."
    yield {"epoch": 1.0}
    while not Path(task["config"]["signal"]).exists():
        time.sleep(0.1)
    return {"score": 0.0}

def look(task):
    "Looks at the size of the data, writes a model, and says whether it sees the driver's folder."
    if task["checkpoint_dir"]:
        model = Path(task["checkpoint_dir"])
        model.mkdir(parents=True)
        with (model / "weights").open("wb") as file:
            for _ in range(task["config"]["model_mib"]):
                file.write(bytes(2**20))
    size = Path(task["data_dir"], "bytes").stat().st_size if task["data_dir"] else 0
    return {"score": float(size), "away": float(not Path(task["config"]["mark"]).exists())}
"""
DISPATCH = CONF / "dispatch" / "ray.yaml"
MEBIBYTE = 2**20


@dataclass
class Traffic:
    """Bytes that the driver has put into Ray for the nodes, and those that it has taken from them."""

    sent: int = 0
    taken: int = 0


class Pool:
    """A dispatcher whose workers have all started, with the folder of its driver.

    Args:
        folder: the driver's, which other nodes see empty.
        address: of the cluster; None = Ray on this machine alone.
        settings: of the section `dispatch`, where they are not the defaults.
    """

    def __init__(self, folder: Path, address: str | None, **settings: Any) -> None:
        shipped = yaml.safe_load(DISPATCH.read_text())
        section = DispatchSection(**shipped | settings | {"address": address, "allow_open_cluster": True})
        code = folder / "measured.py"
        code.write_text(OBJECTIVE)
        self._config = {"mark": str(code), "signal": f"{folder}-{secrets.token_hex(4)}", "model_mib": 0}
        self._num_tasks = 0
        setup = Setup(settings=section, import_from=str(folder), code=Code({code.name: code}))
        began = time.perf_counter()
        self._dispatcher = make_dispatcher(setup)
        self._start_all()
        self.start_seconds = time.perf_counter() - began

    def _start_all(self) -> None:
        """Give each worker a task that ends when all of them have begun."""
        self._submit(self._dispatcher.slots, "wait", {})
        num_begun = num_ended = 0
        while num_ended < self._dispatcher.slots:
            for report in self._dispatcher.wait():
                num_begun += report.point is not None
                if (outcome := report.settled()) is not None:
                    expect("error", outcome.error, None)
                    num_ended += 1
            if num_begun == self._dispatcher.slots:
                Path(self._config["signal"]).touch()

    def run(self, number: int, model_mib: int = 0, **places: str) -> tuple[float, list[Outcome]]:
        """Run tasks; return the seconds from the first one's submission to the last outcome, and the outcomes."""
        began, expected = time.perf_counter(), range(self._num_tasks, self._num_tasks + number)
        self._submit(number, "look", {"model_mib": model_mib}, **places)
        outcomes: dict[int, Outcome] = {}
        while len(outcomes) < number:
            for report in self._dispatcher.wait():
                outcome = report.settled()
                if outcome is None:
                    continue
                expect("error", outcome.error, None)
                expect("second outcome of a task", report.task.trial in outcomes, False)
                outcomes[report.task.trial] = outcome
        seconds = time.perf_counter() - began
        expect("tasks with an outcome", sorted(outcomes), list(expected))
        return seconds, list(outcomes.values())

    def _submit(self, number: int, function: str, config: Mapping[str, Any], **places: str) -> None:
        for _ in range(number):
            payload = Payload(f"measured:{function}", self._config | config, "score", trial=self._num_tasks, **places)
            self._dispatcher.submit(Task(self._num_tasks, 0, payload))
            self._num_tasks += 1

    def close(self) -> None:
        """Stop the workers."""
        self._dispatcher.close()


@contextlib.contextmanager
def counted() -> Iterator[Traffic]:
    """Count what goes from the driver to the nodes and back, in dispatchers that are made in the block."""
    import ray

    traffic, put, get = Traffic(), ray.put, ObjectStore.get

    def counting_put(piece: bytes) -> Any:
        traffic.sent += len(piece)
        return put(piece)

    def counting_get(store: ObjectStore, content: Content) -> Iterator[bytes]:
        for piece in get(store, content):
            traffic.taken += len(piece)
            yield piece

    with patch.object(ray, "put", counting_put), patch.object(ObjectStore, "get", counting_get):
        yield traffic
