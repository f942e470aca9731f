"""The protocol of dispatchers, which take tasks and return reports; `make_dispatcher` creates a dispatcher."""

import importlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
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

# How many lines and characters of a task's output, at most, are added to the details of its failure.
_LAST_LINES, _LAST_CHARACTERS = 20, 2_000


@dataclass(frozen=True, kw_only=True)
class Setup:
    """The arguments to create a dispatcher."""

    settings: DispatchSection
    # The folder to import the objective from, in addition to installed packages.
    import_from: str = field(default_factory=lambda: str(Path.cwd()))
    code: Code | None = None  # the code to send to the nodes of a cluster; None = nothing to send
    artifacts: str | None = None  # URL where workers store states and models; None = the study's folder
    in_use: Use = NOTHING  # the CPUs and GPUs of this machine that other searches use
    now: float = 0.0  # the time in seconds at which a simulated clock starts


@dataclass(frozen=True)
class Gpus:
    """The GPUs that a dispatcher can use, on all its machines."""

    count: float = 0.0  # number of GPUs on the dispatcher's machines, even if the workers use none
    share: float = 0.0  # number of GPUs per process: a fraction below 1, or a whole number; 0 = workers use no GPU
    kinds: tuple[str, ...] = ()  # product names, such as `H100`; empty if unknown
    numbers: tuple[int, ...] = ()  # numbers of the workers' GPUs on this machine; empty if unknown


@dataclass(frozen=True)
class TaskReport:
    """One message about a task: where it runs, a point of its learning curve, a warning, or how it ended."""

    task: Task
    point: Mapping[str, Any] | None = None  # a point of the learning curve
    warning: str | None = None  # a line to show to the user; the task continues
    outcome: Outcome | None = None
    # Why the machine could not run the task, for example a full disk. The task is not at fault, so it has no outcome.
    machine_fault: str | None = None
    # If the outcome is a failure: whether the training reported values by name, but not the study's metric.
    lacks_metric: bool = False
    is_lost: bool = False  # whether the worker died or was silent, so that the dispatcher created the outcome
    units: float | None = None  # units of training done at this point; None = not a point
    goes_on: bool = False  # whether the training said that it continues after this point
    printed: str | None = None  # the task's output so far, if it was recorded; not in every report
    # With the outcome: the most bytes of GPU memory that the task held, and the GPU's total bytes; None = no GPU used.
    gpu_memory: tuple[int, int] | None = None
    # Where the task runs: in the task's first report, and again if a new process runs the task. None in all other
    # reports, and if the task runs in the dispatcher's process.
    host: Host | None = None
    mlflow_run: str | None = None  # in a report before the first point: the id of the MLflow run

    def settled(self) -> Outcome | None:
        """Return the task's outcome; None = the task still runs. Raise MachineError if the machine is at fault."""
        if self.machine_fault is not None:
            raise MachineError(f"trial {self.task.trial} cannot be trained: {self.machine_fault}")
        return self.outcome


def report_of(task: Task, message: Message) -> TaskReport:
    """Convert a message of `hpo.workers.training.worker.run_task` to a report."""
    given = {each.name: message[each.name] for each in fields(TaskReport) if each.name in message}
    if "outcome" in given:
        given["outcome"] = with_last_lines(given["outcome"], message.get("printed"))
    if "gpu_memory" in given:
        given["gpu_memory"] = tuple(given["gpu_memory"])
    return TaskReport(task, **given)


def with_last_lines(outcome: Outcome, printed: str | None) -> Outcome:
    """Return the outcome. If the outcome is a failure, add the last lines of the task's output to the details."""
    if outcome.error is None or not printed or not printed.strip():
        return outcome
    last = "\n".join(printed.strip().splitlines()[-_LAST_LINES:])[-_LAST_CHARACTERS:]
    return replace(outcome, details=f"{outcome.details or outcome.error}\n\nprinted last:\n{last}")


class Dispatcher(Protocol):
    """Runs tasks. The failure of a task is returned as an outcome and never raised as an exception.

    Each dispatcher class that is listed in `hpo.config.sections` must also have the class method `of(setup)`. The
    method returns a dispatcher whose workers are started.
    """

    @property
    def slots(self) -> int:
        """The largest number of tasks that run at the same time."""

    @property
    def gpus(self) -> Gpus:
        """The GPUs that the dispatcher can assign to its workers.

        `Gpus.count` is 0 if the dispatcher can never assign GPUs.
        """

    @property
    def now(self) -> float:
        """The current time on the workers' clock, in seconds from an arbitrary moment."""

    @property
    def runs_here(self) -> bool:
        """Whether tasks run in this process, during the calls of `submit` and `wait`."""

    def submit(self, task: Task) -> None:
        """Queue a task. The task starts as soon as a slot is free."""

    def wait(self, timeout: float | None = None) -> Sequence[TaskReport]:
        """Wait until there is a report. Return all available reports, in the order in which they were made.

        The result is empty if no task is running, or if there is no report within `timeout` seconds. The method may
        also return an empty result before the timeout, if an event brings no report, such as the start of a worker.

        Raises:
            DispatchError: no worker can be started.
            MachineError: Ray has died on this machine.
        """

    def drop(self, task: Task) -> int:
        """End a submitted task. Later calls of `wait` return no report about it.

        Return the worker that trained the task, as in `Outcome.worker`; 0 if no worker has begun the task.
        """

    def save_and_end(self, seconds: float) -> Sequence[TaskReport]:
        """Ask running trainings to save their states and end within `seconds`. Start no further task.

        Return the outcomes of the trainings that finish within this time. If the objective saves a state on SIGTERM,
        an unfinished training continues from this state when it is submitted again.
        """

    def close(self) -> None:
        """Stop the workers and end running tasks."""


def outcomes(
    dispatcher: Dispatcher, tasks: Iterable[Task], show_progress: Callable[[int, int], None] = lambda *_: None
) -> Iterator[tuple[Task, Outcome]]:
    """Run tasks in all slots at the same time. Yield each task with its outcome as soon as the task has finished.

    If the objective ends a task early (Optuna's `TrialPruned`), the outcome is a failure.

    Args:
        dispatcher: runs the tasks.
        tasks: the tasks to run; they are all held in memory.
        show_progress: called with the number of finished tasks and the total number.

    Raises:
        MachineError: the machine could not run a task.
        DispatchError: no worker can be started.
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
                if outcome.stopped is not None:
                    outcome = replace(outcome, error=f"stopped {outcome.stopped}", stopped=None, metrics={})
                yield report.task, outcome
                show_progress(ended, total)


def make_dispatcher(setup: Setup, secrets: Secrets | None = None) -> Dispatcher:
    """Return a dispatcher of the type `setup.settings.name`, with started workers.

    Args:
        setup: the dispatcher's arguments.
        secrets: values of secrets in the cluster's address, by name. Missing values come from environment variables.

    Raises:
        DispatchError: the workers cannot be started.
        ConfigError: an environment variable with a secret of the address is not set.
    """
    settings = setup.settings
    if settings.address is not None:
        address = reveal_secrets(settings.address, values_of(settings.address, secrets or {}, "dispatch.address"))
        setup = replace(setup, settings=settings.model_copy(update={"address": address}))
    module, _, name = settings.type.path.partition(":")
    made: Dispatcher = getattr(importlib.import_module(module), name).of(setup)
    return made


def use_of(dispatcher: Dispatcher, settings: DispatchSection) -> Use | None:
    """Return the CPUs and GPUs of this machine that a dispatcher uses; None = tasks are simulated or run elsewhere."""
    if not settings.is_on_this_machine:
        return None
    if not settings.type.has_own_processes:
        return Use(settings.threads)
    processes, gpus = dispatcher.slots * settings.processes_per_task, dispatcher.gpus
    return Use(processes * settings.cpus_per_worker, processes * gpus.share, gpus.numbers)


def code_to_send(settings: DispatchSection, objective: Objective) -> Code | None:
    """Return the objective's code to send to the nodes of a cluster; None = no cluster is joined."""
    return None if settings.address is None else code_of(objective, str(Path.cwd()))
