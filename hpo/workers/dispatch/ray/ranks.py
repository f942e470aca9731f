"""Trains one task in a group of processes, each in a separate Ray worker. The first worker leads the group."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hpo.workers.dispatch.process.child import Child
from hpo.workers.dispatch.process.group import LOOPBACK, Group, Rank, Seat, variables_of
from hpo.workers.dispatch.ray.private import is_at_fault, reason
from hpo.workers.training.worker import Message


class RankGroup:
    """Runs tasks in all workers of a group. The leading worker uses this class."""

    def __init__(self, actors: Sequence[Any], child: Child) -> None:
        import ray

        self._actors = actors
        self._child = child
        self._seats: Sequence[Seat] = [seat(), *ray.get([actor.seat.remote() for actor in actors])]
        is_one_machine = len({each.node for each in self._seats}) == 1
        find_address: Any = ray.util.get_node_ip_address
        self._address = LOOPBACK if is_one_machine else find_address()
        self._group: Group | None = None

    @property
    def gpus(self) -> Sequence[str]:
        """The device numbers of the GPUs that the group uses on the leader's machine."""
        return [gpu for each in self._seats if each.node == self._seats[0].node for gpu in each.gpus]

    def run(self, task: Sequence[Any], call: str, begin: Any) -> Iterator[Message]:
        """Run a task and yield the messages of `Group.run`. The last message is `{"lost": ...}` if a worker is lost."""
        self._group = Group(self._child, [_rank_of(actor, task) for actor in self._actors])
        yield from self._group.run(call, variables_of(self._seats, self._address), begin)

    def request_end(self) -> None:
        """Ask all processes to save their states and end."""
        if self._group is not None:
            self._group.request_end()


def seat() -> Seat:
    """Return this worker's node and GPUs."""
    import ray

    context = ray.get_runtime_context()
    return Seat(context.get_node_id(), context.get_accelerator_ids().get("GPU", []))


def _rank_of(actor: Any, task: Sequence[Any]) -> Rank:
    import ray

    def run(call: str, variables: Mapping[str, str]) -> Message:
        try:
            ending: Message = ray.get(actor.follow.remote(*task, call, variables))
        except ray.exceptions.RayError as error:
            return {"call": call, "lost": reason(error), "is_at_fault": is_at_fault(error)}
        return ending

    return Rank(run, actor.request_end.remote, actor.kill.remote)
