"""Runs tasks on a pool of long-lived Ray actors, and replaces the ones that die."""

import math
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hpo.config import DispatchSection
from hpo.dispatch.protocol import Report
from hpo.dispatch.ray_cluster import RayCluster
from hpo.dispatch.ray_worker import RayWorker
from hpo.errors import DispatchError
from hpo.trials import Outcome, Task


@dataclass
class _Run:
    """A task on a worker: its stream of messages, and when it last reported."""

    task: Task
    attempt: int
    actor: Any
    stream: Any
    started: float
    last_report: float


class RayDispatcher:
    """A slot is an actor with `cpus_per_worker` and `gpus_per_worker` (fractions too).

    A worker that dies is replaced and its task runs again, at most `retries` times; then the outcome is a
    failure. With `timeout_seconds`, a worker that reports nothing for that long is killed and replaced.
    """

    def __init__(self, settings: DispatchSection, import_from: str | None = None) -> None:
        self._settings = settings
        self._import_from = import_from
        if settings.address is None and settings.gpus is not None:
            # What can be refused without starting Ray is refused at once.
            _refuse_too_many("GPU", settings.workers or 1, settings.gpus_per_worker, settings.gpus)
        self._cluster = RayCluster(settings.address, settings.gpus, settings.threads)
        try:
            self.slots = _count_workers(settings, self._cluster)
        except DispatchError:
            self._cluster.close()
            raise
        import ray

        self._ray = ray
        # On a cluster of others the workers' environment is not ours, so the number of threads travels with them.
        environment = {"env_vars": {"OMP_NUM_THREADS": str(settings.threads)}} if settings.address else {}
        self._actor_type = ray.remote(
            num_cpus=settings.cpus_per_worker,
            num_gpus=settings.gpus_per_worker,
            max_restarts=0,
            runtime_env=environment,
        )(RayWorker)
        self._waiting: deque[tuple[Task, int]] = deque()
        self._idle = deque(self._new_actor() for _ in range(self.slots))
        self._runs: dict[Any, _Run] = {}

    def submit(self, task: Task) -> None:
        """Start the task on an idle worker, or queue it."""
        self._waiting.append((task, 1))
        self._start_waiting()

    def wait(self, timeout: float | None = None) -> Sequence[Report]:
        """Return the reports of all workers that have one; a dead or silent worker's task is started again."""
        if not self._runs:
            return ()
        reports: list[Report] = []
        for stream in self._ready(timeout):
            reports += self._read(self._runs[stream])
        reports += self._end_silent_runs()
        self._start_waiting()
        return reports

    def close(self) -> None:
        """Kill the workers and leave Ray."""
        self._runs.clear()
        self._waiting.clear()
        self._cluster.close()

    def _new_actor(self) -> Any:
        return self._actor_type.remote(self._import_from)

    def _start_waiting(self) -> None:
        while self._waiting and self._idle:
            task, attempt = self._waiting.popleft()
            actor = self._idle.popleft()
            stream = actor.run.options(num_returns="streaming").remote(dict(task.payload))
            now = time.monotonic()
            self._runs[stream] = _Run(task, attempt, actor, stream, now, now)

    def _ready(self, timeout: float | None) -> Sequence[Any]:
        streams = list(self._runs)
        limit = self._settings.timeout_seconds
        # Woken at least every second where silence has to be noticed.
        patience = min((t for t in (timeout, 1.0 if limit else None) if t is not None), default=None)
        first, others = self._ray.wait(streams, num_returns=1, timeout=patience)
        if others:
            more, _ = self._ray.wait(others, num_returns=len(others), timeout=0)
            first = [*first, *more]
        ready: Sequence[Any] = first
        return ready

    def _read(self, run: _Run) -> list[Report]:
        """Return the stream's next message as a report; empty when its worker died and the task runs again."""
        try:
            message = self._ray.get(next(run.stream))
        except self._ray.exceptions.RayError as error:
            return self._worker_lost(run, _reason(error))
        run.last_report = time.monotonic()
        if "point" in message:
            return [Report(run.task, point=message["point"])]
        del self._runs[run.stream]
        self._idle.append(run.actor)
        return [Report(run.task, outcome=Outcome.from_dict(message["outcome"] | {"attempt": run.attempt}))]

    def _worker_lost(self, run: _Run, reason: str) -> list[Report]:
        """Replace the worker; try its task again, or give the failure back when it had its last try."""
        del self._runs[run.stream]
        self._ray.kill(run.actor)
        self._idle.append(self._new_actor())
        tries = self._settings.retries + 1
        if run.attempt < tries:
            self._waiting.appendleft((run.task, run.attempt + 1))
            return []
        seconds = time.monotonic() - run.started
        error = f"{reason}, attempt {run.attempt} of {tries}"
        return [Report(run.task, outcome=Outcome(seconds=seconds, error=error, attempt=run.attempt))]

    def _end_silent_runs(self) -> list[Report]:
        limit = self._settings.timeout_seconds
        if limit is None:
            return []
        silent = [run for run in self._runs.values() if time.monotonic() - run.last_report > limit]
        reports: list[Report] = []
        for run in silent:
            del self._runs[run.stream]
            self._ray.kill(run.actor)
            self._idle.append(self._new_actor())
            seconds = time.monotonic() - run.started
            error = f"no report for {limit:g} s: the worker was killed"
            reports.append(Report(run.task, outcome=Outcome(seconds=seconds, error=error, attempt=run.attempt)))
        return reports


def _count_workers(settings: DispatchSection, cluster: RayCluster) -> int:
    """Return how many workers to start: as asked, or as many as fit; refuse more than fit."""
    needs = {"CPU": (settings.cpus_per_worker, cluster.cpus), "GPU": (settings.gpus_per_worker, cluster.gpus)}
    fits = min(math.floor(there / each + 1e-9) for each, there in needs.values() if each > 0)
    workers = settings.workers or max(fits, 1)
    for kind, (each, there) in needs.items():
        _refuse_too_many(kind, workers, each, there)
    return workers


def _refuse_too_many(kind: str, workers: int, each: float, there: float) -> None:
    if workers * each > there + 1e-9:
        key = f"dispatch.{kind.lower()}s_per_worker"
        raise DispatchError(
            f"{key}: {workers} worker(s) of {each:g} {kind} need {workers * each:g}, there are {there:g}; "
            f"lower {key} or dispatch.workers"
        )


def _reason(error: BaseException) -> str:
    name = type(error).__name__
    if name in ("ActorDiedError", "ActorUnavailableError", "WorkerCrashedError"):
        return "worker died"
    if name == "OutOfMemoryError":
        return "worker killed: the machine ran out of memory"
    return f"worker failed ({name}: {' '.join(str(error).split())[:200]})"
