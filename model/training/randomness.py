"""Random numbers that belong to one training."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor


class Randomness:
    """Torch's random state of one training, active only inside `use`.

    Dropout and weight initialisation draw from torch's global generators. Swapping their state in and out around
    each block of work keeps trainings that share a process, even alternately, independent of each other.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            self._keep()

    def order(self, epoch: int) -> torch.Generator:
        """Return random numbers for the order of the data: a function of seed and epoch alone, so nothing is saved."""
        mixed = np.random.SeedSequence([self._seed, epoch]).generate_state(1, np.uint64)
        return torch.Generator().manual_seed(int(mixed[0]))

    @contextmanager
    def use(self) -> Iterator[None]:
        """Use this training's random numbers as torch's inside the context; restore the earlier ones after it."""
        with torch.random.fork_rng():
            torch.set_rng_state(self._cpu)
            if self._cuda:
                torch.cuda.set_rng_state_all(self._cuda)
            try:
                yield
            finally:
                self._keep()

    def state(self) -> dict[str, Tensor]:
        """Return everything needed to continue drawing from here."""
        return {"cpu": self._cpu} | {f"cuda{number}": state for number, state in enumerate(self._cuda)}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Continue from what `state` returned."""
        self._cpu = state["cpu"]
        self._cuda = [state[f"cuda{number}"] for number in range(len(state) - 1)]

    def _keep(self) -> None:
        self._cpu = torch.get_rng_state()
        self._cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
