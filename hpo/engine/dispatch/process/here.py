"""Trains one task on this machine, in this process or, together, in several."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from pathlib import Path

from hpo.engine.dispatch.process.child import Child
from hpo.engine.dispatch.process.group import Group, describe_death
from hpo.engine.dispatch.process.variables import Seat, alone, variables_of
from hpo.engine.training.payload import Payload
from hpo.engine.training.worker import LAST_MESSAGES, Message, run_task
from hpo.engine.trials.trial import Outcome

_CALL = "here"


class _Process:
    """A process of a rank other than the first."""

    def __init__(self, child: Child, payload: Payload) -> None:
        self._child = child
        self._payload = payload
        self.tell_to_end = child.tell_to_end
        self.kill = child.kill

    def run(self, call: str, variables: Mapping[str, str]) -> Message:
        return last(self._child.run(self._payload, call, variables=variables))


def run_here(payload: Payload, import_from: str | None = None) -> Iterator[Message]:
    """Yield what `run_task` yields; with several processes, which never score the test part, a death is a failure."""
    if payload.processes == 1 or payload.test is not None:
        with alone():
            yield from run_task(payload, import_from)
        return
    folder = import_from or str(Path.cwd())
    with ExitStack() as stack:
        first, *others = (stack.enter_context(closing(Child(folder))) for _ in range(payload.processes))
        group = Group(first, [_Process(child, payload) for child in others])
        variables = variables_of([Seat()] * payload.processes)
        for message in group.run(_CALL, variables, lambda given: first.run(payload, _CALL, variables=given)):
            yield {"outcome": Outcome(error=describe_death(message["died"]))} if "died" in message else message


def last(messages: Iterator[Message]) -> Message:
    """Return the last message of a task."""
    for message in messages:
        if "died" in message or not LAST_MESSAGES.isdisjoint(message):
            return message
    raise RuntimeError("a task ended without an outcome")
