"""A group of processes that train one task together. The first process reports. If any process fails, all are ended."""

import socket
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from hpo.machine import environment
from hpo.trials.trial import Outcome
from hpo.workers.dispatch.process.child import Child
from hpo.workers.training.tasks import Payload
from hpo.workers.training.worker import LAST_MESSAGES, Message, run_task

_PLACE = ("MASTER_ADDR", "MASTER_PORT")
_OF_EACH = ("RANK", "LOCAL_RANK", "GROUP_RANK", "NODE_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")
# If one of these other variables is set, torch, Lightning or Accelerate assumes that the process is one of several.
_OF_LAUNCHERS = (
    *("TORCHELASTIC_RUN_ID", "TORCHELASTIC_USE_AGENT_STORE", "GROUP_WORLD_SIZE", "ROLE_RANK", "ROLE_WORLD_SIZE"),
    *("SLURM_NTASKS", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE"),
)
VARIABLES = (*_PLACE, *_OF_EACH, *_OF_LAUNCHERS)
"""The environment variables that tell a process its position in a group."""

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class Seat:
    """The machine and the GPUs of one process of a group."""

    node: str = ""  # name of the machine
    gpus: Sequence[str] = ()  # numbers of the process's GPUs on that machine


def variables_of(seats: Sequence[Seat], address: str = LOOPBACK) -> list[dict[str, str]]:
    """Return the environment variables of each process, by rank. Call this on the machine of the first process.

    As with torchrun, each process sees all of the group's GPUs on its machine, and chooses one by LOCAL_RANK.

    Args:
        seats: the machine and the GPUs of each process, by rank.
        address: the address of the first process's machine.
    """
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as free:
        free.bind((address, 0))
        place = dict(zip(_PLACE, (address, str(free.getsockname()[1])), strict=True))
    if address == LOOPBACK and sys.platform == "linux":
        # By default gloo listens on the address of the machine's host name, which other machines may be able to reach.
        place["GLOO_SOCKET_IFNAME"] = "lo"
    nodes = list(dict.fromkeys(seat.node for seat in seats))
    on_node = Counter(seat.node for seat in seats)
    before: Counter[str] = Counter()
    result = []
    for rank, seat in enumerate(seats):
        number = str(nodes.index(seat.node))
        values = (str(rank), str(before[seat.node]), number, number, str(len(seats)), str(on_node[seat.node]))
        before[seat.node] += 1
        gpus = [gpu for other in seats if other.node == seat.node for gpu in other.gpus]
        visible = {"CUDA_VISIBLE_DEVICES": ",".join(gpus)} if gpus else {}
        result.append(place | dict(zip(_OF_EACH, values, strict=True)) | visible)
    return result


# How long to wait for the other processes after the first one fails, because the death of another may be the cause.
_SECONDS_TO_LEARN_WHY = 2.0
# How long to wait for the other processes after the first one succeeds. Then they are killed.
_SECONDS_TO_FINISH = 30.0
# How long the first process may run after SIGTERM once another process has ended. Then it is killed.
_SECONDS_TO_SAVE = 60.0
# How long the first process may run after another process reports a failure. In this time it can report a failure of
# its own, such as the same infinite loss. Then it is killed, because it may be waiting for the failed process.
SECONDS_ALONE = 10.0


class Rank(NamedTuple):
    """The functions with which a group controls one of its processes. The first process has no `Rank`.

    Attributes:
        run: trains the group's task in the process, and returns the last message of `Child.run`. The arguments are
            `call`, a unique name for this call, and `variables`, the process's environment variables. If the worker is
            lost, `run` returns a message with these two fields instead: `lost` is the reason; `is_at_fault` says
            whether the task may have caused the loss.
        request_end: sends SIGTERM to the process.
        kill: kills the process, so that `run` returns.
    """

    run: Callable[[str, Mapping[str, str]], Message]
    request_end: Callable[[], object]
    kill: Callable[[], object]


class Group:
    """Runs one task in a group of processes. When `run` yields its last message, no process trains any more.

    If a process of rank 1 or higher dies, the group kills the process of rank 0 at once. If a process of rank 1 or
    higher reports a failure, the group waits `SECONDS_ALONE` seconds, and then kills the process of rank 0. If
    `request_end` was called before the death or failure, the group waits `_SECONDS_TO_SAVE` seconds instead.

    Args:
        first: the process of rank 0.
        others: the processes of rank 1, 2, ...
    """

    def __init__(self, first: Child, others: Sequence[Rank]) -> None:
        self._first = first
        self._others = others
        self._change = threading.Condition()
        self._endings: dict[int, Message] = {}
        self._is_first_done = self._is_ending = False
        self._cause: Message | None = None

    def run(
        self, call: str, variables: Sequence[Mapping[str, str]], begin: Callable[[Mapping[str, str]], Iterator[Message]]
    ) -> Iterator[Message]:
        """Yield the messages of the first process. The last message is the result of the whole group.

        Args:
            call: the unique name of this call.
            variables: the environment variables of the processes, by rank.
            begin: starts the task in the first process with the given variables, and yields the messages.
        """
        for rank in range(1, len(variables)):
            threading.Thread(target=self._follow, args=(rank, call, variables[rank]), daemon=True).start()
        for message in begin(variables[0]):
            if not LAST_MESSAGES.isdisjoint(message):
                yield self._conclude(message)
                return
            yield message

    def request_end(self) -> None:
        """Send SIGTERM to all processes, so that they can save their states and end. Any thread may call this."""
        self._is_ending = True
        self._first.request_end()
        for other in self._others:
            other.request_end()

    def _follow(self, rank: int, call: str, variables: Mapping[str, str]) -> None:
        """Run the task in the process of this rank, 1 or higher. If this process fails, kill rank 0; see `Group`."""
        ending = self._others[rank - 1].run(call, variables)
        with self._change:
            self._endings[rank] = ending
            self._change.notify_all()
            if _is_success(ending):
                return
            alone = SECONDS_ALONE if "outcome" in ending else 0.0
            patience = _SECONDS_TO_SAVE if self._is_ending else alone
            if not self._change.wait_for(lambda: self._is_first_done, patience):
                self._cause = self._cause or _of_rank(rank, ending)
                self._first.kill()

    def _conclude(self, message: Message) -> Message:
        """End the processes of all other ranks. Turn rank 0's last message, `message`, into that of the whole group."""
        with self._change:
            self._is_first_done = True
            self._change.notify_all()
        if _is_success(message):
            self._end_others(_SECONDS_TO_FINISH)
            return message
        if "outcome" in message:
            # After a failure the process may be in any state, so do not reuse it.
            self._first.renew()
        before = self._end_others(0.0 if self._cause or self._is_ending else _SECONDS_TO_LEARN_WHY)
        if self._cause is not None:
            return self._cause
        if "outcome" not in message:
            return message
        for rank, ending in before.items():
            if "outcome" not in ending:
                return _of_rank(rank, ending)
        scored = [rank for rank, ending in before.items() if ending["outcome"].metrics]
        if scored:
            hint = f"rank {scored[0]} returned a score, but only rank 0's counts; return it in rank 0"
            return _failed(message, f"{message['outcome'].error}; {hint}")
        return message

    def _end_others(self, patience: float) -> Mapping[int, Message]:
        """Wait for the other processes. After `patience` seconds, kill those that still run.

        Return the last messages of the processes that were not killed, by rank.
        """

        def have_ended() -> bool:
            return len(self._endings) == len(self._others)

        with self._change:
            self._change.wait_for(have_ended, patience)
            before = dict(self._endings)
        for rank, other in enumerate(self._others, start=1):
            if rank not in before:
                other.kill()
        with self._change:
            self._change.wait_for(have_ended, SECONDS_ALONE)
        return before


def run_here(payload: Payload, import_from: str | None = None) -> Iterator[Message]:
    """Run a task in this process or, if the task needs several processes, in a group of child processes.

    Yield the messages of `run_task`. If a child process dies, the outcome is a failure. A stored model is always scored
    in this process.
    """
    if payload.processes == 1 or payload.test is not None:
        # This process trains alone, even if the variables say that it is one of several.
        with environment(dict.fromkeys(VARIABLES)):
            yield from run_task(payload, import_from)
        return
    folder = import_from or str(Path.cwd())
    with ExitStack() as stack:
        first, *others = (stack.enter_context(closing(Child(folder))) for _ in range(payload.processes))
        group = Group(first, [_rank_of(child, payload) for child in others])
        variables = variables_of([Seat()] * payload.processes)
        for message in group.run("here", variables, lambda given: first.run(payload, "here", variables=given)):
            if "died" in message:
                message = {"outcome": Outcome(error=describe_death(message["died"])), "printed": message["printed"]}
            yield message


def _rank_of(child: Child, payload: Payload) -> Rank:
    def run(call: str, variables: Mapping[str, str]) -> Message:
        return last_message(child.run(payload, call, variables=variables))

    return Rank(run, child.request_end, child.kill)


def last_message(messages: Iterator[Message]) -> Message:
    """Return the last message of a task."""
    return next(message for message in messages if not LAST_MESSAGES.isdisjoint(message))


def describe_death(death: Mapping[str, Any]) -> str:
    """Return a text about the death of a process. `death` is the value of `died` in a message of a child or a group."""
    who = f"rank {death['rank']}" if "rank" in death else "worker"
    if death["signal"] is not None:
        return f"{who} died (signal {death['signal']})"
    return f"{who} died (exit code {death['exit_code']})"


def _is_success(message: Message) -> bool:
    return "outcome" in message and message["outcome"].error is None


def _of_rank(rank: int, ending: Message) -> Message:
    """Convert the last message of a failed process into the last message of the whole group."""
    if "outcome" in ending:
        return _failed(ending, f"rank {rank}: {ending['outcome'].error}")
    if "died" in ending:
        return {**ending, "died": {**ending["died"], "rank": rank}}
    return ending


def _failed(message: Message, error: str) -> Message:
    return {**message, "outcome": replace(message["outcome"], error=error)}
