"""A search as a cluster's job: what it runs, and what it asks for."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

FILL_IN = "FILL_IN"
"""How the names of values begin that only a person can know."""


@dataclass(frozen=True)
class Job:
    """What is submitted.

    Attributes:
        name: the study's.
        arguments: those of `hpo search`.
        mirror: the URL of the study's copy, or None.
        nodes: machines to ask for.
        cpus, gpus: of each machine.
        memory: of each machine, such as `64G`; None = a placeholder.
        time: the longest that it may take, as `HH:MM:SS`; None = a placeholder.
        partition: the part of the cluster; None = a placeholder.
        image: the container image that has hpo; None = a placeholder.
        hosts: the other machines, reached by ssh.
        activate: the script that activates the virtual environment; None = there is none.
    """

    name: str
    arguments: Sequence[str]
    mirror: str | None = None
    nodes: int = 1
    cpus: int = 4
    gpus: int = 0
    memory: str | None = None
    time: str | None = None
    partition: str | None = None
    image: str | None = None
    hosts: Sequence[str] = ()
    activate: str | None = None

    def given(self, name: str) -> str:
        """Return a value, or its placeholder."""
        value = getattr(self, name)
        return f"{FILL_IN}_{name.upper()}" if value is None else str(value)

    def commands(self, address: str) -> str:
        """Return lines for a shell that search the study, or go on with it where it was stopped.

        Where its folder is not there, but its mirror is, as on a machine that has just started, it is copied first.

        Args:
            address: of the Ray cluster, as the shell reads it.
        """
        joined = f'"dispatch.address={address}"'
        search = f"exec hpo search {shlex.join(self.arguments)} {joined}"
        if self.mirror is None:
            return search
        copy = shlex.quote(self.mirror)
        return "\n".join([
            f"if [ ! -e {shlex.quote(f'runs/{self.name}')} ]; then",
            "  code=0",
            f"  hpo resume {copy} {joined} || code=$?",
            "  # 2: there is no copy yet.",
            '  [ "$code" -eq 2 ] || exit "$code"',
            "fi",
            search,
        ])  # fmt: skip
