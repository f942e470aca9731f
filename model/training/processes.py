"""The processes that train one network together, each on its share of every batch, and the notice that one must end."""

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

# While the first process decodes the last batch or writes, the others wait. Whoever started them ends them all when one
# has died.
_PATIENCE = datetime.timedelta(days=2)
# On a GPU, reading a number would make it wait after every step.
STEPS_PER_LOOK = {"cpu": 1, "cuda": 16}
_ABSENT = object()
_T = TypeVar("_T")


class Notice:
    """Whether SIGTERM has arrived, as clusters send it before they take a machine away.

    A program that handles the signal itself is left alone.
    """

    def __init__(self) -> None:
        self.has_come = False

    @contextlib.contextmanager
    def awaited(self) -> Iterator[None]:
        """Take SIGTERM inside the context, instead of ending at once."""
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
        """End this process as the signal would have."""
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.raise_signal(signal.SIGTERM)
        raise SystemExit(128 + signal.SIGTERM)  # Where the signal is blocked.


@dataclass(frozen=True)
class Processes:
    """How many there are, which of them this is (`rank`, 0 is the first), and the notice that this one must end.

    All have the same weights, optimizers and order of the data; each evaluates its share, the first alone writes. The
    gradients of a batch are those of one process, up to the order of additions. Dropout draws other numbers in each.
    """

    rank: int = 0
    size: int = 1
    notice: Notice = field(default_factory=Notice)

    @classmethod
    @contextlib.contextmanager
    def joined(cls, device: torch.device, size: int) -> Iterator["Processes"]:
        """Join the others, as the variables of torch.distributed say, and leave them if the context ends well.

        With a size of 1 the variables are those of a job that the search runs in.
        """
        notice = Notice()
        with notice.awaited():
            if size == 1:
                yield cls(notice=notice)
                return
            if device.type == "cuda":
                # Objects that are gathered travel through the current GPU, and so does what joins the processes.
                torch.cuda.set_device(device)
            distributed.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=_PATIENCE)
            yield cls(distributed.get_rank(), size, notice)
            # Where a network in `parallel` outlives its group, torch may hang for ever when it goes: it joins threads
            # that need the interpreter's lock while it holds it. So it goes first; and where an exception still holds
            # it, the group is not left.
            gc.collect()
            distributed.destroy_process_group()

    def parallel(self, network: nn.Module) -> nn.Module:
        """Return the network, whose gradients become the mean over the processes in every backward pass.

        Source: Li et al. 2020, "PyTorch Distributed: Experiences on Accelerating Data Parallel Training".
        """
        if self.size == 1:
            return network
        wrapper = nn.parallel.DistributedDataParallel
        # Nothing changes the buffers. torch has renamed the option in 2.13.
        known = inspect.signature(wrapper).parameters
        options: dict[str, Any] = {
            "forward_sync_buffers" if "forward_sync_buffers" in known else "broadcast_buffers": False
        }
        return wrapper(network, **options)

    def share(self, indices: Tensor) -> tuple[Tensor, float]:
        """Return this process's examples of a batch, and the factor of their loss.

        With the factor, the mean of the processes' gradients is the gradient of the summed loss. A process without an
        example computes one with the factor 0, since all must take part.
        """
        own = indices[self.rank :: self.size]
        return (own, float(self.size)) if len(own) else (indices[:1], 0.0)

    def summed(self, value: Tensor) -> Tensor:
        """Return the sum over the processes, the same in each."""
        if self.size > 1:
            distributed.all_reduce(value)
        return value

    def any(self, own: bool, device: torch.device) -> bool:
        """Return whether it is so in any of the processes."""
        return own if self.size == 1 else bool(self.summed(torch.tensor(float(own), device=device)))

    def must_end(self, step: int, device: torch.device) -> bool:
        """Return whether one of the processes has been told to end, after this step; the same in all of them."""
        return step % STEPS_PER_LOOK[device.type] == 0 and self.any(self.notice.has_come, device)

    def end(self) -> Never:
        """End this process as it has been told."""
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
        """Return what the first process computes."""
        if self.size == 1:
            return compute()
        box: list[Any] = [compute() if self.rank == 0 else None]
        distributed.broadcast_object_list(box)
        result: _T = box[0]
        return result
