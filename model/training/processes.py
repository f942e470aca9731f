"""The processes that train a network together, each on its share of every batch, and the notice to end."""

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

# The others wait while the first process decodes the last batch or writes. If one dies, the process that started them
# ends them all.
_PATIENCE = datetime.timedelta(days=2)
# Reading a number from a GPU after every step would make the CPU wait for it.
STEPS_PER_LOOK = {"cpu": 1, "cuda": 16}
_ABSENT = object()
_T = TypeVar("_T")


class Notice:
    """Whether SIGTERM has arrived, which clusters send before they take a machine away.

    If the program has its own handler of the signal, this one does nothing.
    """

    def __init__(self) -> None:
        self.has_come = False

    @contextlib.contextmanager
    def awaited(self) -> Iterator[None]:
        """Remember SIGTERM inside the context, instead of ending at once."""
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
        """End this process, as the signal would have done."""
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.raise_signal(signal.SIGTERM)
        raise SystemExit(128 + signal.SIGTERM)  # The signal may be blocked.


@dataclass(frozen=True)
class Processes:
    """The processes that train together, from the view of one of them.

    All have the same weights, optimizers and order of the data. Each evaluates its share, and only the first writes.
    The gradients of a batch are those of a single process, up to the order of additions. Dropout draws different
    numbers in each.

    Attributes:
        rank: the number of this process; 0 = the first.
        size: the number of processes.
        notice: whether this process must end.
    """

    rank: int = 0
    size: int = 1
    notice: Notice = field(default_factory=Notice)

    @classmethod
    @contextlib.contextmanager
    def joined(cls, device: torch.device, size: int) -> Iterator["Processes"]:
        """Join the group of the environment variables of torch.distributed, and leave it if the context ends well.

        With a size of 1 the variables are ignored, because they belong to the job in which the search runs.
        """
        notice = Notice()
        with notice.awaited():
            if size == 1:
                yield cls(notice=notice)
                return
            if device.type == "cuda":
                # Gathered objects and the setup of the group use the current GPU.
                torch.cuda.set_device(device)
            distributed.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=_PATIENCE)
            yield cls(distributed.get_rank(), size, notice)
            # If a network in `parallel` outlives its group, torch may hang when it is deleted: it joins threads that
            # need the interpreter's lock while it holds the lock. So delete it first. After an exception, which may
            # still hold the network, do not leave the group.
            gc.collect()
            distributed.destroy_process_group()

    def parallel(self, network: nn.Module) -> nn.Module:
        """Return the network with gradients that are the mean over the processes in every backward pass.

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
        """Return this process's examples of a batch, and the factor of their loss.

        With the factor, the mean of the processes' gradients is the gradient of the summed loss. All processes must
        take part, so a process without an example computes one with the factor 0.
        """
        own = indices[self.rank :: self.size]
        return (own, float(self.size)) if len(own) else (indices[:1], 0.0)

    def summed(self, value: Tensor) -> Tensor:
        """Return the sum over the processes, which is the same in each."""
        if self.size > 1:
            distributed.all_reduce(value)
        return value

    def any(self, own: bool, device: torch.device) -> bool:
        """Return whether `own` is True in any of the processes."""
        return own if self.size == 1 else bool(self.summed(torch.tensor(float(own), device=device)))

    def must_end(self, step: int, device: torch.device) -> bool:
        """Return whether any of the processes has the notice to end, checked every few steps; the same in each."""
        return step % STEPS_PER_LOOK[device.type] == 0 and self.any(self.notice.has_come, device)

    def end(self) -> Never:
        """End this process after its notice."""
        self.notice.obey()

    def interleaved(self, own: Sequence[_T]) -> list[_T]:
        """Return the items of all processes: the first of each, in order of rank, then the second of each, ..."""
        if self.size == 1:
            return list(own)
        shares: list[Any] = [None] * self.size
        distributed.all_gather_object(shares, list(own))
        rounds = itertools.zip_longest(*shares, fillvalue=_ABSENT)
        return [item for each in rounds for item in each if item is not _ABSENT]

    def by_first(self, compute: Callable[[], _T]) -> _T:
        """Return the result that the first process computes."""
        if self.size == 1:
            return compute()
        box: list[Any] = [compute() if self.rank == 0 else None]
        distributed.broadcast_object_list(box)
        result: _T = box[0]
        return result
