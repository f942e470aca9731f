"""The processes that train a network together, each with a share of every batch; and their reaction to SIGTERM."""

import contextlib
import datetime
import gc
import inspect
import itertools
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Never, TypeVar

import torch
from torch import Tensor, distributed, nn

# How long a process waits for another one, for example while the first process writes files. The limit can be generous:
# if a process dies, the parent that started all of them ends the others.
_PATIENCE = datetime.timedelta(days=2)
# How many steps pass between two checks of losses and of SIGTERM. On a GPU these are several steps, because reading a
# number from the GPU makes the CPU wait.
STEPS_PER_LOOK = {"cpu": 1, "cuda": 16}
_ABSENT = object()
_T = TypeVar("_T")


class Notice:
    """Records the arrival of SIGTERM, the signal that clusters send before they take a machine away.

    Outside of the main thread, or if the program already has its own handler for SIGTERM, this class does nothing.
    """

    def __init__(self) -> None:
        self.has_come = False

    @contextlib.contextmanager
    def awaited(self) -> Iterator[None]:
        """Inside the `with` block, record SIGTERM instead of ending the process at once."""
        is_ours = threading.current_thread() is threading.main_thread()
        if not is_ours or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
            yield
            return
        signal.signal(signal.SIGTERM, lambda *_: setattr(self, "has_come", True))
        try:
            yield
        finally:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def obey(self) -> Never:
        """End this process by the default action of SIGTERM."""
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.raise_signal(signal.SIGTERM)
        raise SystemExit(128 + signal.SIGTERM)  # The signal may be blocked.


@dataclass(frozen=True)
class Processes:
    """The group of processes that train a network together; each process has its own object.

    All processes have the same weights, optimizers and order of the data. Each process evaluates a share of the
    examples, and only the first process writes files. The gradients of a batch equal those of a single process, up to
    the order of additions. Dropout draws different numbers in each process.

    Attributes:
        rank: the number of this process; 0 = the first.
        size: the number of processes.
        notice: whether this process has received SIGTERM.
    """

    rank: int = 0
    size: int = 1
    notice: Notice = field(default_factory=Notice)

    @classmethod
    @contextlib.contextmanager
    def joined(cls, device: torch.device, size: int) -> Iterator["Processes"]:
        """Join the group of processes that torch.distributed's environment variables describe.

        If the `with` block ends without an exception, leave the group. If `size` is 1, join no group, because the
        variables then belong to the job in which the search runs.
        """
        notice = Notice()
        with notice.awaited():
            if size == 1:
                yield cls(notice=notice)
                return
            if device.type == "cuda":
                # torch uses the current GPU to set up the group and to gather objects.
                torch.cuda.set_device(device)
            distributed.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=_PATIENCE)
            yield cls(distributed.get_rank(), size, notice)
            # Delete the network of `parallel` before leaving the group. Otherwise torch may hang when the network is
            # deleted: it then holds the interpreter's lock and joins threads that need this lock. After an exception,
            # which may still refer to the network, do not leave the group at all.
            gc.collect()
            distributed.destroy_process_group()

    def parallel(self, network: nn.Module) -> nn.Module:
        """Wrap the network, so that every backward pass averages the gradients over the processes.

        If this is the only process, return the network itself.

        Source: Li et al. 2020, "PyTorch Distributed: Experiences on Accelerating Data Parallel Training".
        """
        if self.size == 1:
            return network
        wrapper = nn.parallel.DistributedDataParallel
        # No training changes the buffers, so do not send them. torch 2.13 renamed the option.
        known = inspect.signature(wrapper).parameters
        options: dict[str, Any] = {
            "forward_sync_buffers" if "forward_sync_buffers" in known else "broadcast_buffers": False
        }
        return wrapper(network, **options)

    def share(self, indices: Tensor) -> tuple[Tensor, float]:
        """Return this process's share of the examples in a batch, and the factor for the loss of this share.

        The factor makes the mean gradient over all processes equal to the gradient of the summed loss. All processes
        must take part in a backward pass. So a process without examples takes the first example with the factor 0.
        """
        own = indices[self.rank :: self.size]
        return (own, float(self.size)) if len(own) else (indices[:1], 0.0)

    def summed(self, value: Tensor) -> Tensor:
        """Return the sum of `value` over all processes; every process gets the same sum."""
        if self.size > 1:
            distributed.all_reduce(value)
        return value

    def any(self, own: bool, device: torch.device) -> bool:
        """Return whether `own` is True in at least one process; every process gets the same answer."""
        return own if self.size == 1 else bool(self.summed(torch.tensor(float(own), device=device)))

    def must_end(self, step: int, device: torch.device) -> bool:
        """Return whether at least one process has received SIGTERM; the check happens only every few steps.

        Every process gets the same answer.
        """
        return step % STEPS_PER_LOOK[device.type] == 0 and self.any(self.notice.has_come, device)

    def interleaved(self, own: Sequence[_T]) -> list[_T]:
        """Return the items of all processes: item 0 of each process in the order of ranks, then item 1, and so on.

        The processes may have different numbers of items.
        """
        if self.size == 1:
            return list(own)
        shares: list[Any] = [None] * self.size
        distributed.all_gather_object(shares, list(own))
        rounds = itertools.zip_longest(*shares, fillvalue=_ABSENT)
        return [item for each in rounds for item in each if item is not _ABSENT]

    def by_first(self, compute: Callable[[], _T]) -> _T:
        """Call `compute` in the first process only, and return its result in every process."""
        if self.size == 1:
            return compute()
        box: list[Any] = [compute() if self.rank == 0 else None]
        distributed.broadcast_object_list(box)
        result: _T = box[0]
        return result
