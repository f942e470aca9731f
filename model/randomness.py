"""Random numbers that belong to one training."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


class Randomness:
    """Torch's random state of one training, in force only inside `use`.

    Dropout and weight initialisation draw from torch's global generators. Swapping their state in and out around
    each stretch of work keeps trainings that share a process, even in turns, from disturbing one another.
    """

    def __init__(self, seed: int) -> None:
        self.order = torch.Generator().manual_seed(seed)  # for the order of the data: independent of the network
        with self._restored():
            torch.manual_seed(seed)
            self._keep()

    @contextmanager
    def use(self) -> Iterator[None]:
        """Inside, torch's random numbers are this training's; afterwards they are what they were before."""
        with self._restored():
            torch.set_rng_state(self._cpu)
            if self._cuda:
                torch.cuda.set_rng_state_all(self._cuda)
            try:
                yield
            finally:
                self._keep()

    def _keep(self) -> None:
        self._cpu = torch.get_rng_state()
        self._cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []

    @contextmanager
    def _restored(self) -> Iterator[None]:
        with torch.random.fork_rng():
            yield
