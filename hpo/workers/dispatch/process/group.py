"""The processes that train one task together: the first reports, and one that ends early ends them all."""

import os
import socket
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from hpo.trials.trial import Outcome
from hpo.workers.dispatch.process.child import Child
from hpo.workers.training.tasks import Payload
from hpo.workers.training.worker import LAST_MESSAGES, Message, run_task

_PLACE = ("MASTER_ADDR", "MASTER_PORT")
_OF_EACH = ("RANK", "LOCAL_RANK", "GROUP_RANK", "NODE_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")
# By these, too, torch, Lightning and Accelerate take a process for one of several.
_OF_LAUNCHERS = (
    *("TORCHELASTIC_RUN_ID", "TORCHELASTIC_USE_AGENT_STORE", "GROUP_WORLD_SIZE", "ROLE_RANK", "ROLE_WORLD_SIZE"),
    *("SLURM_NTASKS", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE"),
)
VARIABLES = (*_PLACE, *_OF_EACH, *_OF_LAUNCHERS)
"""Those that say whether a process is one of several."""

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class Seat:
    """Where one of the processes is."""

    node: str = ""  # the name of its machine
    gpus: Sequence[str] = ()  # the numbers of its GPUs there


@contextmanager
def alone() -> Iterator[None]:
    """Take the variables of the job that this process runs in out of its environment: inside, it trains alone."""
    before = {name: os.environ.pop(name) for name in VARIABLES if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(before)


def variables_of(seats: Sequence[Seat], address: str = LOOPBACK) -> list[dict[str, str]]:
    """Return the variables of each process, by rank; `address` is of the first one's machine, where this is called.

    All processes of a machine see the GPUs of all of them, and choose one by LOCAL_RANK, as under torchrun.
    """
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as free:
        free.bind((address, 0))
        place = dict(zip(_PLACE, (address, str(free.getsockname()[1])), strict=True))
    if address == LOOPBACK and sys.platform == "linux":
        # Else gloo listens on the address of the machine's name, which others may reach.
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


# From the failure of the first to the end of the others: where one of them has died, that is the reason.
_SECONDS_TO_LEARN_WHY = 2.0
# From the end of the first to that of the others, where all is well; those that have not finished are killed.
_SECONDS_TO_FINISH = 30.0
# From the notice that they must end to the end of those that have not.
_SECONDS_TO_SAVE = 60.0


class Rank(NamedTuple):
    """One of the processes, but not the first."""

    # Trains the task, given the name of its call and the process's variables, and returns the last message: of
    # `Child.run`, or `{"lost": reason, "is_at_fault": ...}`.
    run: Callable[[str, Mapping[str, str]], Message]
    request_end: Callable[[], object]  # sends SIGTERM to the process
    kill: Callable[[], object]  # so that `run` returns


class Group:
    """Runs one task, in `first` with rank 0 and `others` with 1, 2, ...; after its last message none of them trains.

    `seconds_alone` pass from the failure of another's objective to the end of the first, which waits for it. Where all
    fail alike, as with a loss that is not finite, the first tells of it in that time.
    """

    def __init__(self, first: Child, others: Sequence[Rank], seconds_alone: float = 10.0) -> None:
        self._seconds_alone = seconds_alone
        self._first = first
        self._others = others
        self._change = threading.Condition()
        self._endings: dict[int, Message] = {}
        self._is_first_done = self._is_told = False
        self._cause: Message | None = None

    def run(
        self, call: str, variables: Sequence[Mapping[str, str]], begin: Callable[[Mapping[str, str]], Iterator[Message]]
    ) -> Iterator[Message]:
        """Yield the messages of the first process, and one that tells how all have ended; `variables` are by rank."""
        for rank in range(1, len(variables)):
            threading.Thread(target=self._follow, args=(rank, call, variables[rank]), daemon=True).start()
        for message in begin(variables[0]):
            if not LAST_MESSAGES.isdisjoint(message):
                yield self._concluded(message)
                return
            yield message

    def request_end(self) -> None:
        """Let all processes save what they have and end; from any thread."""
        self._is_told = True
        self._first.request_end()
        for other in self._others:
            other.request_end()

    def _follow(self, rank: int, call: str, variables: Mapping[str, str]) -> None:
        """Run one of the others; where it ends before the first, without success, end the first as well."""
        ending = self._others[rank - 1].run(call, variables)
        with self._change:
            self._endings[rank] = ending
            self._change.notify_all()
            if _is_success(ending):
                return
            alone = self._seconds_alone if "outcome" in ending else 0.0
            patience = _SECONDS_TO_SAVE if self._is_told else alone
            if not self._change.wait_for(lambda: self._is_first_done, patience):
                self._cause = self._cause or _of_rank(rank, ending)
                self._first.kill()

    def _concluded(self, message: Message) -> Message:
        """Return the last message of all, given that of the first, when the others have ended."""
        with self._change:
            self._is_first_done = True
            self._change.notify_all()
        if _is_success(message):
            self._end_others(_SECONDS_TO_FINISH)
            return message
        if "outcome" in message:
            # It may be in the middle of anything.
            self._first.renew()
        before = self._end_others(0.0 if self._cause or self._is_told else _SECONDS_TO_LEARN_WHY)
        if self._cause is not None:
            return self._cause
        if "outcome" not in message:
            return message
        for rank, ending in before.items():
            if "outcome" not in ending:
                return _of_rank(rank, ending)
        scored = [rank for rank, ending in before.items() if ending["outcome"].metrics]
        if scored:
            hint = f"rank {scored[0]} has returned a score, but only that of rank 0 counts"
            return _failed(message, f"{message['outcome'].error}; {hint}")
        return message

    def _end_others(self, patience: float) -> Mapping[int, Message]:
        """Wait for the others, then kill them; return how those ended that were not killed."""

        def have_ended() -> bool:
            return len(self._endings) == len(self._others)

        with self._change:
            self._change.wait_for(have_ended, patience)
            before = dict(self._endings)
        for rank, other in enumerate(self._others, start=1):
            if rank not in before:
                other.kill()
        with self._change:
            self._change.wait_for(have_ended, self._seconds_alone)
        return before


def run_here(payload: Payload, import_from: str | None = None, seconds_alone: float = 10.0) -> Iterator[Message]:
    """Yield what `run_task` yields; with several processes, which never score the test part, a death is a failure."""
    if payload.processes == 1 or payload.test is not None:
        with alone():
            yield from run_task(payload, import_from)
        return
    folder = import_from or str(Path.cwd())
    with ExitStack() as stack:
        first, *others = (stack.enter_context(closing(Child(folder))) for _ in range(payload.processes))
        group = Group(first, [_rank_of(child, payload) for child in others], seconds_alone)
        variables = variables_of([Seat()] * payload.processes)
        for message in group.run("here", variables, lambda given: first.run(payload, "here", variables=given)):
            yield {"outcome": Outcome(error=describe_death(message["died"]))} if "died" in message else message


def _rank_of(child: Child, payload: Payload) -> Rank:
    def run(call: str, variables: Mapping[str, str]) -> Message:
        return last_message(child.run(payload, call, variables=variables))

    return Rank(run, child.request_end, child.kill)


def last_message(messages: Iterator[Message]) -> Message:
    """Return the last message of a task."""
    for message in messages:
        if not LAST_MESSAGES.isdisjoint(message):
            return message
    raise RuntimeError("a task ended without an outcome")


def describe_death(death: Mapping[str, Any]) -> str:
    """Return how a process died, as `Child.run` and `Group.run` tell it, in words."""
    who = f"rank {death['rank']}" if "rank" in death else "worker"
    if death["out_of_step"]:
        return f"{who} ended: its message did not belong to its task"
    if death["signal"] is not None:
        return f"{who} died (signal {death['signal']})"
    return f"{who} died (exit code {death['exit_code']})"


def _is_success(message: Message) -> bool:
    return "outcome" in message and message["outcome"].error is None


def _of_rank(rank: int, ending: Message) -> Message:
    """Return the ending of one of the others as that of all."""
    if "outcome" in ending:
        return _failed(ending, f"rank {rank}: {ending['outcome'].error}")
    if "died" in ending:
        return {**ending, "died": {**ending["died"], "rank": rank}}
    return ending


def _failed(message: Message, error: str) -> Message:
    return {**message, "outcome": replace(message["outcome"], error=error)}
