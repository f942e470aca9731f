"""The random numbers of a training."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor


class Randomness:
    """The state of torch's random generators for one training.

    Dropout and weight initialisation draw from torch's global generators. The training's state is active only inside
    `use`, so that trainings that share a process do not affect each other. If several processes train together, only
    the state of the first process is saved. The other processes derive their random numbers from the step.
    """

    def __init__(self, seed: int, device: torch.device, rank: int = 0) -> None:
        self._seed = seed
        self._rank = rank
        self._gpus = [device] if device.type == "cuda" else []
        with torch.random.fork_rng(self._gpus):
            self._begin(seed)
            self._keep()

    def order(self, epoch: int) -> torch.Generator:
        """Return the generator for the order of the data in an epoch; it depends only on the seed and the epoch."""
        mixed = np.random.SeedSequence([self._seed, epoch]).generate_state(1, np.uint64)
        return torch.Generator().manual_seed(int(mixed[0]))

    def begin_step(self, step: int) -> None:
        """In every process except the first, seed the generators for a step. Call `begin_step` inside `use`."""
        if self._rank:
            mixed = np.random.SeedSequence([self._seed, self._rank, step]).generate_state(1, np.uint64)
            self._begin(int(mixed[0]))

    @contextmanager
    def use(self) -> Iterator[None]:
        """Inside the context, set torch's generators to this training's state; at the end, restore their old state."""
        with torch.random.fork_rng(self._gpus):
            torch.set_rng_state(self._cpu)
            for gpu, state in zip(self._gpus, self._cuda, strict=True):
                torch.cuda.set_rng_state(state, gpu)
            try:
                yield
            finally:
                self._keep()

    def state(self) -> dict[str, Tensor]:
        """Return the state of the generators."""
        return {"cpu": self._cpu} | {f"cuda{number}": state for number, state in enumerate(self._cuda)}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Continue from a state that `state` returned, on the same device or another.

        If this training runs on a GPU, but the state comes from a CPU, the GPU's generator starts from the seed of the
        training. If this training runs on a CPU, the state of a GPU's generator is ignored.
        """
        self._cpu = state["cpu"]
        for place in range(len(self._gpus)):
            self._cuda[place] = state.get(f"cuda{place}", self._cuda[place])

    def _begin(self, seed: int) -> None:
        torch.default_generator.manual_seed(seed)
        for gpu in self._gpus:
            with torch.cuda.device(gpu):
                torch.cuda.manual_seed(seed)

    def _keep(self) -> None:
        self._cpu = torch.get_rng_state()
        self._cuda = [torch.cuda.get_rng_state(gpu) for gpu in self._gpus]
