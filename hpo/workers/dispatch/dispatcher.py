"""The protocol of a dispatcher, which takes tasks and returns their reports; and a function that makes one."""

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

# The most lines and characters of a task's output in the details of its failure.
_LAST_LINES, _LAST_CHARACTERS = 20, 2_000
# Fields that a message and a `TaskReport` share.
_REPORTED = {
    *("point", "warning", "outcome", "machine_fault", "units", "goes_on", "printed", "gpu_memory", "host"),
    *("lacks_metric", "mlflow_run"),
}


@dataclass(frozen=True, kw_only=True)
class Setup:
    """The arguments to make a dispatcher."""

    settings: DispatchSection
    import_from: str  # the folder to import the objective from, in addition to installed packages
    code: Code | None = None  # the code to send to a cluster at an address; None = every node has it
    artifacts: str | None = None  # the URL where workers store states and models; None = in the study's folder
    in_use: Use = NOTHING  # the CPUs and GPUs of this machine that other searches use


@dataclass(frozen=True)
class Gpus:
    """The GPUs of the machines that a dispatcher uses."""

    count: float = 0.0
    share: float = 0.0  # GPUs of each worker: a fraction of one, or a whole number
    kinds: tuple[str, ...] = ()  # the known product names, such as `H100`
    numbers: tuple[int, ...] = ()  # the known numbers of the workers' GPUs on this machine


@dataclass(frozen=True)
class TaskReport:
    """One message from a worker about a task: its host, a point of its learning curve, a warning, or its outcome."""

    task: Task
    point: Mapping[str, Any] | None = None  # a point of the learning curve
    warning: str | None = None  # a line for the user; the task continues
    outcome: Outcome | None = None
    # Why the machine could not run the task, such as a full disk. The task is not at fault and has no outcome.
    machine_fault: str | None = None
    # With a failure: whether the training reported values by name, but not its metric.
    lacks_metric: bool = False
    is_lost: bool = False  # whether the dispatcher made the outcome, because the worker died or stopped reporting
    units: float | None = None  # the units of training done at this point; None for other messages
    goes_on: bool = False  # whether the training said that it continues after this point
    printed: str | None = None  # with an outcome: the output of a task that ran in its own process
    # With an outcome: the most bytes of GPU memory that the task held, and the GPU's bytes; None without a GPU.
    gpu_memory: tuple[int, int] | None = None
    # In the first report: where the task runs, unless it runs in the dispatcher's process.
    host: Host | None = None
    mlflow_run: str | None = None  # before the training: the id of its MLflow run, if it has one

    def settled(self) -> Outcome | None:
        """Return the outcome; None while the task runs. Raise MachineError if the machine could not run it."""
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
    """Return the outcome; add the last lines of the task's output to the details of a failure."""
    if outcome.error is None or not printed or not printed.strip():
        return outcome
    last = "\n".join(printed.strip().splitlines()[-_LAST_LINES:])[-_LAST_CHARACTERS:]
    return replace(outcome, details=f"{outcome.details or outcome.error}\n\nprinted last:\n{last}")


class Dispatcher(Protocol):
    """Runs tasks. A failure is an outcome, never an exception.

    A class that `hpo.config.sections` names also has `of(setup)`, which returns a dispatcher with started workers.
    """

    @property
    def slots(self) -> int:
        """How many tasks run at once."""

    @property
    def gpus(self) -> Gpus:
        """The GPUs that the dispatcher assigns to its workers; none if it assigns none."""

    @property
    def now(self) -> float:
        """Seconds on the workers' clock, since an arbitrary moment."""

    @property
    def runs_here(self) -> bool:
        """Whether tasks run in this process, within `submit` and `wait`."""

    def submit(self, task: Task) -> None:
        """Queue a task; it starts as soon as a slot is free."""

    def wait(self, timeout: float | None = None) -> Sequence[TaskReport]:
        """Wait until a worker reports; return all available reports, in the order in which they were made.

        The result is empty if no worker reports within `timeout` seconds, or if nothing runs. It may also be empty
        while the dispatcher replaces a worker.
        """

    def drop(self, task: Task) -> None:
        """End a submitted task; it makes no more reports."""

    def save_and_end(self, seconds: float) -> Sequence[TaskReport]:
        """Let running trainings save their states and end within these seconds; start no other.

        Return the outcomes of the trainings that finished in this time. The others continue when they are submitted
        again, if their objective saves its state on SIGTERM.
        """

    def close(self) -> None:
        """Stop the workers and drop running tasks."""


def outcomes(
    dispatcher: Dispatcher, tasks: Iterable[Task], show_progress: Callable[[int, int], None] = lambda *_: None
) -> Iterator[tuple[Task, Outcome]]:
    """Run tasks, one per slot at a time; yield each task with its outcome as it arrives.

    Args:
        dispatcher: runs the tasks.
        tasks: a few tasks.
        show_progress: called with the number of finished tasks and the number of all.

    Raises:
        MachineError: the machine could not run a task.
    """
    waiting, in_flight = deque(tasks), 0
    total, ended = len(waiting), 0
    if total:
        show_progress(ended, total)
    while waiting or in_flight:
        while waiting and in_flight < dispatcher.slots:
            dispatcher.submit(waiting.popleft())
            in_flight += 1
        for report in dispatcher.wait():
            if (outcome := report.settled()) is not None:
                in_flight, ended = in_flight - 1, ended + 1
                yield report.task, outcome
                show_progress(ended, total)


def make_dispatcher(
    settings: DispatchSection,
    secrets: Secrets | None = None,
    code: Code | None = None,
    artifacts: str | None = None,
    in_use: Use = NOTHING,
) -> Dispatcher:
    """Return the dispatcher that `settings.name` names, with started workers.

    Args:
        settings: the section `dispatch` of the configuration.
        secrets: values for the address, in addition to the environment.
        code: see `Setup`.
        artifacts: see `Setup`.
        in_use: see `Setup`.

    Raises:
        DispatchError: the workers cannot be started.
    """
    if settings.address is not None:
        address = reveal_secrets(settings.address, values_of(settings.address, secrets or {}, "dispatch.address"))
        settings = settings.model_copy(update={"address": address})
    setup = Setup(settings=settings, import_from=str(Path.cwd()), code=code, artifacts=artifacts, in_use=in_use)
    module, _, name = settings.type.path.partition(":")
    made: Dispatcher = getattr(importlib.import_module(module), name).of(setup)
    return made


def use_of(dispatcher: Dispatcher, settings: DispatchSection) -> Use | None:
    """Return the CPUs and GPUs of this machine that a dispatcher uses; None = it is simulated or runs elsewhere."""
    if not settings.is_on_this_machine:
        return None
    if not settings.type.has_own_processes:
        return Use(settings.threads)
    processes, gpus = dispatcher.slots * settings.processes_per_task, dispatcher.gpus
    return Use(processes * settings.cpus_per_worker, processes * gpus.share, gpus.numbers)


def code_to_send(settings: DispatchSection, objective: Objective) -> Code | None:
    """Return the objective's code for the nodes of a cluster; None = no cluster is joined."""
    return None if settings.address is None else code_of(objective, str(Path.cwd()))
