"""Random numbers that belong to one training."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor


class Randomness:
    """Torch's random state of one training, from its seed, active only inside `use`; no other device's state is
    touched.

    Dropout and weight initialisation draw from torch's global generators. Swapping their state in and out around each
    block of work keeps trainings that share a process, even alternately, independent of each other. Of processes that
    train together the states of all but the first are not saved: their numbers begin anew with every step.
    """

    def __init__(self, seed: int, device: torch.device, rank: int = 0) -> None:
        self._seed = seed
        self._rank = rank
        self._gpus = [device] if device.type == "cuda" else []
        with torch.random.fork_rng(self._gpus):
            self._begin(seed)
            self._keep()

    def order(self, epoch: int) -> torch.Generator:
        """Return random numbers for the order of the data: a function of seed and epoch alone, so nothing is saved."""
        mixed = np.random.SeedSequence([self._seed, epoch]).generate_state(1, np.uint64)
        return torch.Generator().manual_seed(int(mixed[0]))

    def begin_step(self, step: int) -> None:
        """Draw the numbers of this step, where the process is not the first; inside `use`."""
        if self._rank:
            mixed = np.random.SeedSequence([self._seed, self._rank, step]).generate_state(1, np.uint64)
            self._begin(int(mixed[0]))

    @contextmanager
    def use(self) -> Iterator[None]:
        """Use this training's random numbers as torch's inside the context; restore the earlier ones after it."""
        with torch.random.fork_rng(self._gpus):
            torch.set_rng_state(self._cpu)
            for gpu, state in zip(self._gpus, self._cuda, strict=True):
                torch.cuda.set_rng_state(state, gpu)
            try:
                yield
            finally:
                self._keep()

    def state(self) -> dict[str, Tensor]:
        """Return everything needed to continue drawing from here."""
        return {"cpu": self._cpu} | {f"cuda{number}": state for number, state in enumerate(self._cuda)}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Continue from what `state` returned, on this device or another one.

        A state without a GPU's numbers leaves those of the seed; those of more GPUs than are used here are left out.
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
