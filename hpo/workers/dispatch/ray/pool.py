"""Runs tasks on a pool of long-lived Ray actors, and replaces actors that die."""

import itertools
import math
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from hpo.errors import DispatchError, MachineError
from hpo.trials.trial import Outcome
from hpo.workers.dispatch.dispatcher import Gpus, Setup, TaskReport, report_of, with_last_lines
from hpo.workers.dispatch.process.group import describe_death
from hpo.workers.dispatch.ray.private import is_at_fault, reason
from hpo.workers.dispatch.ray.worker_group import start_group
from hpo.workers.dispatch.transfer import FileTransfer, Shipment
from hpo.workers.store.packing import ObjectStore
from hpo.workers.training.tasks import Task
from hpo.workers.training.worker import LAST_MESSAGES

# How long tasks wait for a worker while no worker can be started, for example because nodes are lost.
_NO_WORKER_SECONDS = 300.0
# A task whose worker is lost with its node is not at fault, but the number of its restarts needs a limit.
_MOST_LOSSES = 10


@dataclass
class _Run:
    """A task in progress: how often it was started, how often its worker died or was lost, and where it runs."""

    task: Task
    attempt: int = 0
    call: str = ""  # unique name of this start; a message with another name is late and from an abandoned worker
    deaths: int = 0
    losses: int = 0
    actor: Any = None
    stream: Any = None
    shipment: Shipment | None = None  # files that were sent to another node with the task
    worker: int = 0  # id of the process that trains, as in `Outcome.worker`
    must_end: bool = False  # whether the training was asked to save its state and end
    started: float = 0.0
    last_report: float = 0.0


class RayDispatcher:
    """A dispatcher whose slots are workers: single Ray actors, or groups of actors if a task has several processes.

    If the process of a task dies, the task runs again, at most `retries` times. After that, the task has failed.
    The pool replaces a worker that is lost. If a worker makes no report for `timeout_seconds`, the pool replaces the
    worker, and the task has failed. Before Ray takes a node away, the trainings on this node save their states. A
    worker that is not on the driver's node receives files from the driver. It sends its states and models to the
    driver, or to `study.artifacts`.
    """

    runs_here = False

    def __init__(self, setup: Setup) -> None:
        settings = self._settings = setup.settings
        self._cluster, self._group = start_group(setup)
        import ray

        self._ray = ray
        shares = self._group.shares
        self.slots = shares.workers
        num_gpus = sum(node.gpus for node in self._cluster.nodes)
        num_processes = self.slots * settings.processes_per_task
        numbers = self._cluster.gpu_numbers[: math.ceil(num_processes * shares.gpus)]
        self.gpus = Gpus(num_gpus, shares.gpus, self._cluster.gpu_kinds, numbers)
        self._transfer = FileTransfer(ObjectStore(ray.put, ray.get, settings.largest_message * 2**20))
        self._waiting: deque[_Run] = deque()
        self._runs: dict[Any, _Run] = {}
        self._started: list[TaskReport] = []
        self._is_ending = False
        self._calls = itertools.count()
        self._last_worker = time.monotonic()

    @classmethod
    def of(cls, setup: Setup) -> Self:
        """Return a dispatcher with the arguments in `setup`."""
        return cls(setup)

    @property
    def now(self) -> float:
        """The current time in seconds, counted from an arbitrary moment."""
        return time.monotonic()

    def submit(self, task: Task) -> None:
        """Start the task on an idle worker, or queue it."""
        if self._cluster.others:
            self._transfer.pack_common(task.payload)
        self._waiting.append(_Run(task))
        self._start_waiting()

    def wait(self, timeout: float | None = None) -> Sequence[TaskReport]:
        """Return all reports, and restart tasks of lost workers.

        Raises:
            DispatchError: no worker can be started, or a node has other versions of the code than this machine.
            MachineError: Ray has died on this machine.
        """
        if not self._runs and not self._waiting:
            return ()
        if self._started:
            reports, self._started = self._started, []
            return reports
        self._leave_draining_nodes()
        reports = []
        for ready in self._ready(timeout):
            if ready in self._group.starting:
                self._group.add_started(ready)
            else:
                reports += self._read(self._runs[ready])
        reports += self._end_silent_runs()
        self._start_waiting()
        self._refuse_endless_wait()
        return reports

    def drop(self, task: Task) -> int:
        """Drop a task. For a waiting task, return 0. For a running task, kill the worker and return its process id."""
        self._started = [report for report in self._started if report.task is not task]
        waiting = next((run for run in self._waiting if run.task is task), None)
        if waiting is not None:
            self._waiting.remove(waiting)
            return 0
        run = next(run for run in self._runs.values() if run.task is task)
        self._abandon(run)
        return run.worker

    def save_and_end(self, seconds: float) -> Sequence[TaskReport]:
        """Send SIGTERM to all trainings, and wait until they have ended, at most `seconds`. Return the outcomes."""
        self._is_ending = True
        self._waiting.clear()
        for run in self._runs.values():
            self._request_end(run)
        reports: list[TaskReport] = []
        deadline = time.monotonic() + seconds
        # The signal that ends this search may have ended Ray too, so do not wait for a dead Ray.
        while self._runs and self._cluster.is_alive and (left := deadline - time.monotonic()) > 0:
            for stream in self._ray.wait(list(self._runs), num_returns=1, timeout=min(left, 0.2))[0]:
                reports += self._read(self._runs[stream])
        self._cluster.begin_to_close()
        return [report for report in reports if report.outcome is not None]

    def close(self) -> None:
        """Kill the workers. Disconnect from Ray, unless this process was connected before it created the dispatcher."""
        self._runs.clear()
        self._waiting.clear()
        if self._cluster.is_adopted:
            self._group.kill_all()
        self._cluster.close()

    def _start_waiting(self) -> None:
        while self._waiting and self._group.idle:
            run = self._waiting.popleft()
            run.attempt += 1
            run.actor = self._group.idle.popleft()
            run.call = f"trial {run.task.trial} task {run.task.index} attempt {run.attempt} call {next(self._calls)}"
            payload = run.task.payload
            run.shipment = self._transfer.pack(payload) if self._group.is_away(run.actor) else None
            call = run.actor.run.options(num_returns="streaming")
            run.stream = call.remote(dict(vars(payload)), run.call, run.shipment)
            run.started = run.last_report = time.monotonic()
            host = self._group.hosts[run.actor]
            run.worker = host.process
            self._started.append(TaskReport(run.task, host=host))
            self._runs[run.stream] = run

    def _ready(self, timeout: float | None) -> Sequence[Any]:
        answers = [*self._runs, *self._group.starting]
        # Wake up every second if a worker may be silent for too long, or if no task runs because workers are missing.
        has_limit = self._settings.timeout_seconds is not None or not self._runs
        patience = min((t for t in (timeout, 1.0 if has_limit else None) if t is not None), default=None)
        first, others = self._ray.wait(answers, num_returns=1, timeout=patience)
        more = self._ray.wait(others, num_returns=len(others), timeout=0)[0] if others else ()
        return [*first, *more]

    def _read(self, run: _Run) -> list[TaskReport]:
        """Read a run's next message. Return a list with one report, or an empty list if there is nothing to report."""
        message = None
        try:
            message = self._ray.get(next(run.stream))
            if message["call"] != run.call:
                return []
            run.last_report = time.monotonic()
            if "content" in message:
                self._transfer.take(run.task.payload, message)
                return []
        except self._ray.exceptions.RayError as error:
            # If the message was received but its content was not, the node is lost.
            return self._handle_loss(run, reason(error), message is None and is_at_fault(error))
        if "lost" in message:
            return self._handle_loss(run, message["lost"], message["is_at_fault"])
        if LAST_MESSAGES.isdisjoint(message):
            report = report_of(run.task, message)
            if report.host is not None:
                self._group.hosts[run.actor], run.worker = report.host, report.host.process
            return [report]
        if "died" in message and run.must_end:
            # Our SIGTERM ended the process, so this is not a failure. The task continues on another worker.
            self._abandon(run)
            run.must_end = False
            if not self._is_ending:
                self._waiting.appendleft(run)
            return []
        del self._runs[run.stream]
        self._group.idle.append(run.actor)
        if "died" in message:
            death = message["died"]
            return self._handle_death(run, describe_death(death), death["memory"], message["printed"])
        report = report_of(run.task, message)
        return [replace(report, outcome=report.outcome and replace(report.outcome, attempt=run.attempt))]

    def _request_end(self, run: _Run) -> None:
        run.must_end = True
        run.actor.request_end.remote()

    def _leave_draining_nodes(self) -> None:
        """Replace idle workers on nodes that Ray will take away, and ask the trainings there to save and end."""
        for worker in self._group.draining_workers():
            if worker in self._group.idle:
                self._group.idle.remove(worker)
                self._group.replace(worker)
            for run in self._runs.values():
                if run.actor == worker and not run.must_end:
                    self._request_end(run)

    def _handle_loss(self, run: _Run, why: str, is_at_fault: bool) -> list[TaskReport]:
        """Replace the lost worker. Queue its task again, or return a failure if the task was restarted too often."""
        self._abandon(run)
        if is_at_fault:
            return self._handle_death(run, why)
        run.losses += 1
        if run.losses < _MOST_LOSSES:
            self._waiting.appendleft(run)
            return []
        return [self._failure(run, f"the node of the task's worker was lost {run.losses} times ({why})")]

    def _handle_death(
        self, run: _Run, reason: str, memory: str | None = None, printed: str | None = None
    ) -> list[TaskReport]:
        """Queue the task again; if it has no retries left, return a failure."""
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
            self._abandon(run)
        return [self._failure(run, f"no report within dispatch.timeout_seconds={limit:g}") for run in silent]

    def _abandon(self, run: _Run) -> None:
        """Kill the run's worker and ignore its later messages. Start another worker unless the search is ending."""
        del self._runs[run.stream]
        if self._is_ending:
            self._group.end(run.actor)
        else:
            self._group.replace(run.actor)

    def _failure(self, run: _Run, error: str, printed: str | None = None) -> TaskReport:
        seconds = time.monotonic() - run.started
        outcome = Outcome(
            seconds=seconds, error=error, attempt=run.attempt, started=time.time() - seconds, worker=run.worker
        )
        return TaskReport(run.task, outcome=with_last_lines(outcome, printed), is_lost=True, printed=printed)

    def _refuse_endless_wait(self) -> None:
        if self._runs or self._group.idle or not self._waiting:
            self._last_worker = time.monotonic()
        elif not self._cluster.is_alive:
            raise MachineError("dispatch: Ray has died on this machine; perhaps its processes were killed")
        elif time.monotonic() - self._last_worker > _NO_WORKER_SECONDS:
            raise DispatchError(
                f"dispatch: no worker could be started within {_NO_WORKER_SECONDS:g} s: each worker needs "
                f"{self._group.needs}, and the cluster has {self._group.free} free; if nodes were lost, run "
                f"`hpo resume` when they are back"
            )
