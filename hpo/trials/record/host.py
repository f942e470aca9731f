"""Where a task is trained."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True)
class Site:
    """The process that trains a task; of several that train together the first."""

    host: str  # the name of its machine
    process: int  # its number there
    gpus: Sequence[str] = ()  # the numbers of the GPUs that it was given there, as far as that is known

    @classmethod
    def here(cls) -> Self:
        """Return this process."""
        return cls(os.uname().nodename, os.getpid())

    def __str__(self) -> str:
        """As people read it: `process 30085 on ada, GPU 0`."""
        gpus = f", GPU {', '.join(self.gpus)}" if self.gpus else ""
        return f"process {self.process} on {self.host}{gpus}"
