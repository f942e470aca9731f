"""Runs tasks on a pool of long-lived Ray actors, and replaces those that die."""

import itertools
import math
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from hpo.config.sections import DispatchSection
from hpo.errors import DispatchError, MachineError
from hpo.trials.trial import Outcome
from hpo.workers.dispatch.code import Code
from hpo.workers.dispatch.dispatcher import Gpus, Setup, TaskReport, report_of, with_last_lines
from hpo.workers.dispatch.other_searches import NOTHING, Use
from hpo.workers.dispatch.process.group import describe_death
from hpo.workers.dispatch.ray.private import is_at_fault, reason
from hpo.workers.dispatch.ray.worker_group import start_group
from hpo.workers.dispatch.transfer import FileTransfer, Shipment
from hpo.workers.store.packing import ObjectStore
from hpo.workers.training.tasks import Task
from hpo.workers.training.worker import LAST_MESSAGES

# How long tasks wait for a worker if none can be started, as when all nodes but the driver's are lost.
_NO_WORKER_SECONDS = 300.0
# A task is not at fault if its workers are lost with their nodes, but it is not restarted without limit.
_MOST_LOSSES = 10


@dataclass
class _Run:
    """A task in progress: how often it was started, how often its worker died or was lost, and where it runs."""

    task: Task
    attempt: int = 0
    call: str = ""  # the name of this start, by which a late answer of a worker that was given up is recognised
    deaths: int = 0
    losses: int = 0
    actor: Any = None
    stream: Any = None
    shipment: Shipment | None = None  # what was sent with it to another node
    is_ask_and_tell: bool = False  # whether it must save its state and end
    started: float = 0.0
    last_report: float = 0.0


class RayDispatcher:
    """A slot is an actor with `cpus_per_worker` and `gpus_per_worker` (fractions too).

    A task whose process died runs again, at most `retries` times; then the outcome is a failure. A worker that is
    lost, or silent for `timeout_seconds`, is replaced; where a node will be taken away, trainings save their states
    first. Workers on other nodes than the driver's get their files from it, and give it theirs.
    """

    runs_here = False

    def __init__(
        self,
        settings: DispatchSection,
        import_from: str | None = None,
        code: Code | None = None,
        artifacts: str | None = None,
        in_use: Use = NOTHING,
    ) -> None:
        self._settings = settings
        self._cluster, self._group = start_group(settings, import_from, code or Code(), artifacts, in_use)
        import ray

        self._ray = ray
        shares = self._group.shares
        self.slots = shares.workers
        there, taken = sum(node.gpus for node in self._cluster.nodes), self.slots * settings.processes_per_task
        numbers = self._cluster.gpu_numbers[: math.ceil(taken * shares.gpus)]
        self.gpus = Gpus(there, shares.gpus, self._cluster.gpu_kinds, numbers)
        self._freight = FileTransfer(ObjectStore(ray.put, ray.get, settings.largest_message * 2**20))
        self._waiting: deque[_Run] = deque()
        self._runs: dict[Any, _Run] = {}
        self._begun: list[TaskReport] = []
        self._is_ending = False
        self._calls = itertools.count()
        self._last_worker = time.monotonic()

    @classmethod
    def of(cls, setup: Setup) -> Self:
        """Return the dispatcher of this setup."""
        return cls(setup.settings, setup.import_from, setup.code, setup.artifacts, setup.in_use)

    @property
    def now(self) -> float:
        """Seconds, from any moment."""
        return time.monotonic()

    def submit(self, task: Task) -> None:
        """Start the task on an idle worker, or queue it."""
        if self._cluster.others:
            self._freight.pack_common(task.payload)
        self._waiting.append(_Run(task))
        self._start_waiting()

    def wait(self, timeout: float | None = None) -> Sequence[TaskReport]:
        """Return all reports, and restart the tasks of lost workers; DispatchError where no worker can be started."""
        if not self._runs and not self._waiting:
            return ()
        if self._begun:
            reports, self._begun = self._begun, []
            return reports
        self._leave_draining_nodes()
        reports = []
        for ready in self._ready(timeout):
            if ready in self._group.starting:
                self._group.take_on(ready)
            else:
                reports += self._read(self._runs[ready])
        reports += self._end_silent_runs()
        self._start_waiting()
        self._refuse_to_wait_for_ever()
        return reports

    def drop(self, task: Task) -> None:
        """Kill its worker, or forget it."""
        self._begun = [report for report in self._begun if report.task is not task]
        waiting = next((run for run in self._waiting if run.task is task), None)
        if waiting is not None:
            self._waiting.remove(waiting)
        else:
            self._give_up(next(run for run in self._runs.values() if run.task is task))

    def save_and_end(self, seconds: float) -> Sequence[TaskReport]:
        """Tell all trainings to end, and wait until they have."""
        self._is_ending = True
        self._waiting.clear()
        for run in self._runs.values():
            self._tell_to_end(run)
        reports: list[TaskReport] = []
        deadline = time.monotonic() + seconds
        # The signal may have ended Ray, too.
        while self._runs and self._cluster.is_alive and (left := deadline - time.monotonic()) > 0:
            for stream in self._ray.wait(list(self._runs), num_returns=1, timeout=min(left, 0.2))[0]:
                reports += self._read(self._runs[stream])
        self._cluster.begin_to_close()
        return [report for report in reports if report.outcome is not None]

    def close(self) -> None:
        """Kill the workers and disconnect from Ray."""
        self._runs.clear()
        self._waiting.clear()
        if self._cluster.is_adopted:
            self._group.dismiss()
        self._cluster.close()

    def _start_waiting(self) -> None:
        while self._waiting and self._group.idle:
            run = self._waiting.popleft()
            run.attempt += 1
            run.actor = self._group.idle.popleft()
            run.call = f"trial {run.task.trial} task {run.task.index} attempt {run.attempt} call {next(self._calls)}"
            payload = run.task.payload
            run.shipment = self._freight.pack(payload) if self._group.is_away(run.actor) else None
            call = run.actor.run.options(num_returns="streaming")
            run.stream = call.remote(dict(vars(payload)), run.call, run.shipment)
            run.started = run.last_report = time.monotonic()
            self._begun.append(TaskReport(run.task, host=self._group.hosts[run.actor]))
            self._runs[run.stream] = run

    def _ready(self, timeout: float | None) -> Sequence[Any]:
        waited_for = [*self._runs, *self._group.starting]
        # Wakes at least every second if a silent worker or a lack of workers must be noticed.
        has_limit = self._settings.timeout_seconds is not None or not self._runs
        patience = min((t for t in (timeout, 1.0 if has_limit else None) if t is not None), default=None)
        first, others = self._ray.wait(waited_for, num_returns=1, timeout=patience)
        more = self._ray.wait(others, num_returns=len(others), timeout=0)[0] if others else ()
        return [*first, *more]

    def _read(self, run: _Run) -> list[TaskReport]:
        """Return the stream's next message as a report; empty if its worker died and the task runs again."""
        message = None
        try:
            message = self._ray.get(next(run.stream))
            if message["call"] != run.call:
                return []
            run.last_report = time.monotonic()
            if "content" in message:
                self._freight.take(run.task.payload, message)
                return []
        except self._ray.exceptions.RayError as error:
            # What was announced, and is not there, went with its node.
            return self._lost(run, reason(error), message is None and is_at_fault(error))
        if "lost" in message:
            return self._lost(run, message["lost"], message["is_at_fault"])
        if LAST_MESSAGES.isdisjoint(message):
            report = report_of(run.task, message)
            if report.host is not None:
                self._group.hosts[run.actor] = report.host
            return [report]
        if "died" in message and run.is_ask_and_tell:
            # It goes on elsewhere, and nothing of it is a fault.
            self._give_up(run)
            run.is_ask_and_tell = False
            if not self._is_ending:
                self._waiting.appendleft(run)
            return []
        del self._runs[run.stream]
        self._group.idle.append(run.actor)
        if "died" in message:
            return self._died(run, describe_death(message["died"]), message["died"]["memory"], message["printed"])
        report = report_of(run.task, message)
        return [replace(report, outcome=report.outcome and replace(report.outcome, attempt=run.attempt))]

    def _tell_to_end(self, run: _Run) -> None:
        run.is_ask_and_tell = True
        run.actor.request_end.remote()

    def _leave_draining_nodes(self) -> None:
        """Let trainings on nodes that will be taken away save their states, and start other workers elsewhere."""
        for worker in self._group.leaving():
            if worker in self._group.idle:
                self._group.idle.remove(worker)
                self._group.replace(worker)
            for run in self._runs.values():
                if run.actor == worker and not run.is_ask_and_tell:
                    self._tell_to_end(run)

    def _lost(self, run: _Run, why: str, is_at_fault: bool) -> list[TaskReport]:
        """Replace the worker; the task is not at fault if its node was lost or cannot be reached."""
        self._give_up(run)
        if is_at_fault:
            return self._died(run, why)
        run.losses += 1
        if run.losses < _MOST_LOSSES:
            self._waiting.appendleft(run)
            return []
        return [self._failure(run, f"lost with its worker's node {run.losses} times ({why})")]

    def _died(self, run: _Run, reason: str, memory: str | None = None, printed: str | None = None) -> list[TaskReport]:
        """Queue the task again; after its last try return a failure."""
        run.deaths += 1
        tries = self._settings.retries + 1
        if run.deaths < tries:
            self._waiting.appendleft(run)
            return []
        error = f"{reason}, attempt {run.deaths} of {tries}{f'; {memory}' if memory else ''}"
        return [self._failure(run, error, printed)]

    def _end_silent_runs(self) -> list[TaskReport]:
        limit = self._settings.timeout_seconds
        if limit is None:
            return []
        silent = [run for run in self._runs.values() if time.monotonic() - run.last_report > limit]
        for run in silent:
            self._give_up(run)
        return [self._failure(run, f"no report for {limit:g} s: the worker was killed") for run in silent]

    def _give_up(self, run: _Run) -> None:
        """Kill the run's worker and start another; later messages of the old one are ignored."""
        del self._runs[run.stream]
        if self._is_ending:
            self._group.end(run.actor)
        else:
            self._group.replace(run.actor)

    def _failure(self, run: _Run, error: str, printed: str | None = None) -> TaskReport:
        outcome = Outcome(seconds=time.monotonic() - run.started, error=error, attempt=run.attempt)
        return TaskReport(run.task, outcome=with_last_lines(outcome, printed), is_lost=True, printed=printed)

    def _refuse_to_wait_for_ever(self) -> None:
        if self._runs or self._group.idle or not self._waiting:
            self._last_worker = time.monotonic()
        elif not self._cluster.is_alive:
            raise MachineError("dispatch: the Ray that was started here has died: its processes were killed")
        elif time.monotonic() - self._last_worker > _NO_WORKER_SECONDS:
            raise DispatchError(
                f"dispatch: no worker could be started for {_NO_WORKER_SECONDS:g} s; each needs {self._group.needs}, "
                f"and free are {self._group.free}: were nodes lost? Go on with `hpo resume` when they are back"
            )
