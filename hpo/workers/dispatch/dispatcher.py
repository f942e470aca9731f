"""The protocol of every dispatcher, which takes tasks and returns what their workers report; and how one is made."""

import importlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from hpo.config.secrets import Secrets, reveal_secrets, values_of
from hpo.config.sections import DispatchSection
from hpo.errors import MachineError
from hpo.machine import Host
from hpo.trials.trial import Outcome
from hpo.workers.dispatch.code import Code, code_of
from hpo.workers.dispatch.other_searches import NOTHING, Use
from hpo.workers.objective.objective import Objective
from hpo.workers.training.tasks import Task
from hpo.workers.training.worker import Message

# Of what a task printed, that go into the details of its failure.
_LAST_LINES, _LAST_CHARACTERS = 20, 2_000
# What a message and a `TaskReport` call alike.
_REPORTED = {
    *("point", "warning", "outcome", "machine_fault", "units", "goes_on", "printed", "gpu_memory", "host"),
    *("lacks_metric", "mlflow_run"),
}


@dataclass(frozen=True, kw_only=True)
class Setup:
    """What a dispatcher is made from."""

    settings: DispatchSection
    import_from: str  # the folder to import the objective from besides the installed packages
    code: Code | None = None  # what is sent to a cluster at an address; None = every node has it
    artifacts: str | None = None  # the URL where workers keep states and models; None = in the study's folder
    in_use: Use = NOTHING  # what other searches on this machine use of it


@dataclass(frozen=True)
class Gpus:
    """The GPUs of the machines that a dispatcher uses."""

    there: float = 0.0  # how many
    share: float = 0.0  # of them for each worker: a fraction of one, or a whole number
    kinds: tuple[str, ...] = ()  # their names, such as `H100`, as far as they are known
    numbers: tuple[int, ...] = ()  # of those on this machine that the workers have, as far as they are known


@dataclass(frozen=True)
class TaskReport:
    """One message from a worker: where it trains a task, a point of its learning curve, a warning, or how it ended."""

    task: Task
    point: Mapping[str, Any] | None = None  # a step of its learning curve
    warning: str | None = None  # a line for people; the task continues
    outcome: Outcome | None = None
    # Why the machine could not run it (such as a full disk): not the task's fault, and no outcome.
    machine_fault: str | None = None
    # With a failure, whether the training reported by name and did not name what it is scored by.
    lacks_metric: bool = False
    is_lost: bool = False  # whether the dispatcher made the outcome, because the worker died or stopped reporting
    units: float | None = None  # how many units of its training are done at this point; None for other messages
    goes_on: bool = False  # whether it has said that it does not end with this point
    printed: str | None = None  # with an outcome, what the task printed, where it ran in a process of its own
    # With an outcome, the most bytes of its GPU that it held, and how many that has; None without one.
    gpu_memory: tuple[int, int] | None = None
    # First of all, where it is another process than that of the dispatcher.
    host: Host | None = None
    mlflow_run: str | None = None  # the id of its run in MLflow, where it has one, before it trains

    def settled(self) -> Outcome | None:
        """Return the outcome; None while the task runs. MachineError where the machine could not run it."""
        if self.machine_fault is not None:
            raise MachineError(f"trial {self.task.trial} cannot be trained: {self.machine_fault}")
        return self.outcome


def report_of(task: Task, message: Message) -> TaskReport:
    """Return a message of `hpo.workers.training.worker.run_task` as a report."""
    given = {name: message[name] for name in _REPORTED & message.keys()}
    if "outcome" in given:
        given["outcome"] = with_last_lines(given["outcome"], message.get("printed"))
    if "gpu_memory" in given:
        given["gpu_memory"] = tuple(given["gpu_memory"])
    return TaskReport(task, **given)


def with_last_lines(outcome: Outcome, printed: str | None) -> Outcome:
    """Return the outcome; that of a failure with the last lines that its task printed in the details."""
    if outcome.error is None or not printed or not printed.strip():
        return outcome
    last = "\n".join(printed.strip().splitlines()[-_LAST_LINES:])[-_LAST_CHARACTERS:]
    return replace(outcome, details=f"{outcome.details or outcome.error}\n\nprinted last:\n{last}")


class Dispatcher(Protocol):
    """Runs tasks. A failure is an outcome, never an exception.

    A class that `hpo.config.sections` names has `of(setup)` besides, which returns one with its workers started.
    """

    @property
    def slots(self) -> int:
        """How many tasks run at once."""

    @property
    def gpus(self) -> Gpus:
        """The GPUs that it shares out among its workers; none where it does not choose."""

    @property
    def now(self) -> float:
        """Seconds on the workers' clock, from any moment."""

    @property
    def runs_here(self) -> bool:
        """Whether tasks run in this process, within `submit` and `wait`."""

    def submit(self, task: Task) -> None:
        """Take a task; it starts as soon as a slot is free."""

    def wait(self, timeout: float | None = None) -> Sequence[TaskReport]:
        """Block until a worker reports; return all available reports in the order in which they were made.

        Returns an empty sequence if nothing was reported within `timeout` seconds or nothing runs; a dispatcher may
        also do so while it replaces a worker.
        """

    def drop(self, task: Task) -> None:
        """End a task that was submitted and has not ended; nothing more is reported of it."""

    def save_and_end(self, seconds: float) -> Sequence[TaskReport]:
        """Let running trainings save their states and end, within these seconds, and start no other.

        Returns the outcomes of those that came to their own end meanwhile. The others, when they are submitted again,
        go on from where they were told, if their objective saves its state on SIGTERM.
        """

    def close(self) -> None:
        """Stop the workers; running tasks are dropped."""


def outcomes(
    dispatcher: Dispatcher, tasks: Iterable[Task], tell: Callable[[int, int], None] = lambda *_: None
) -> Iterator[tuple[Task, Outcome]]:
    """Yield each of a few tasks with its outcome as it arrives, with one task per slot at a time; see `settled`.

    `tell` gets how many have ended, of how many.
    """
    waiting, in_flight = deque(tasks), 0
    total, ended = len(waiting), 0
    if total:
        tell(ended, total)
    while waiting or in_flight:
        while waiting and in_flight < dispatcher.slots:
            dispatcher.submit(waiting.popleft())
            in_flight += 1
        for report in dispatcher.wait():
            if (outcome := report.settled()) is not None:
                in_flight, ended = in_flight - 1, ended + 1
                yield report.task, outcome
                tell(ended, total)


def make_dispatcher(
    settings: DispatchSection,
    secrets: Secrets | None = None,
    code: Code | None = None,
    artifacts: str | None = None,
    in_use: Use = NOTHING,
) -> Dispatcher:
    """Return the dispatcher that `settings.name` names, its workers started; DispatchError where they cannot be.

    `secrets` are values for the address, besides the environment; for the others see `Setup`.
    """
    if settings.address is not None:
        address = reveal_secrets(settings.address, values_of(settings.address, secrets or {}, "dispatch.address"))
        settings = settings.model_copy(update={"address": address})
    setup = Setup(settings=settings, import_from=str(Path.cwd()), code=code, artifacts=artifacts, in_use=in_use)
    module, _, name = settings.type.path.partition(":")
    made: Dispatcher = getattr(importlib.import_module(module), name).of(setup)
    return made


def use_of(dispatcher: Dispatcher, settings: DispatchSection) -> Use | None:
    """Return what a dispatcher uses of this machine; None for another machine's, and where no time passes."""
    if not settings.is_on_this_machine:
        return None
    if not settings.type.has_own_processes:
        return Use(settings.threads)
    processes, gpus = dispatcher.slots * settings.processes_per_task, dispatcher.gpus
    return Use(processes * settings.cpus_per_worker, processes * gpus.share, gpus.numbers)


def code_to_send(settings: DispatchSection, objective: Objective) -> Code | None:
    """Return what of an objective's code the nodes of a cluster need; None where no cluster is joined."""
    return None if settings.address is None else code_of(objective, str(Path.cwd()))
