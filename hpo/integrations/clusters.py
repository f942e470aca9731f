"""What to submit so that a study is searched on a cluster: by Slurm, by KubeRay, or over ssh."""

import importlib.metadata
import json
import re
import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.resources import files

FILL_IN = "FILL_IN"
"""How the names of values begin that only a person can know."""

_REFUSED = f"# Kubernetes refuses this file until everything that begins with {FILL_IN} is filled in.\n"
_WORKERS = "    workerGroupSpecs:\n"


@dataclass(frozen=True)
class Job:
    """A search as a cluster's job: what it runs, and what it asks for, where None is left to a person.

    Attributes:
        arguments: those of `hpo search`.
        mirror: the URL of the study's copy, if it has one.
        cpus, gpus, memory: of each machine; `64G`.
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

    def commands(self, address: str, separator: str = "\n") -> str:
        """Return what a shell runs to search the study, or to go on with it: first its mirror is copied, where it has
        no folder, as on a machine that has just started.
        """
        joined = f'"dispatch.address={address}"'
        search = f"exec hpo search {shlex.join(self.arguments)} {joined}"
        if self.mirror is None:
            return search
        copy = f"hpo resume {shlex.quote(self.mirror)} {joined}"
        there = shlex.quote(f"runs/{self.name}")
        # 2: there is no copy yet.
        copied = f'if [ ! -e {there} ]; then code=0; {copy} || code=$?; [ "$code" -eq 2 ] || exit "$code"; fi'
        return separator.join([copied, search])


def write_job(kind: str, job: Job, file: str) -> str:
    """Return the text to submit, of which `file` is the name: a script for Slurm or for this machine (`local`), which
    have one Ray cluster on their machines, or a RayJob, a cluster of pods that lives as long as the search.
    """
    asked = {name: f"{FILL_IN}_{name.upper()}" if value is None else value for name, value in asdict(job).items()}
    memory, gpus = str(asked["memory"]), job.gpus
    amounts = {"cpu": str(job.cpus), "memory": re.sub(r"^(\d+)([KMGT])$", r"\1\2i", memory)}
    values = asked | {
        "file": shlex.quote(file),
        "activate": f". {shlex.quote(job.activate)}\n" if job.activate else "",
        "commands": job.commands("$address"),
        "gpus": f"#SBATCH --gpus-per-node={gpus}\n" if gpus else "",
        "hosts": shlex.join(job.hosts),
        "pods": re.sub(r"[^a-z0-9]+", "-", job.name.lower()).strip("-")[:40],
        "ray": importlib.metadata.version("ray"),
        "entrypoint": json.dumps(job.commands("$RAY_ADDRESS", "; ")),
        "amounts": json.dumps(amounts | ({"nvidia.com/gpu": str(gpus)} if gpus else {})),
        "others": job.nodes - 1,
        "unfinished": "" if job.image and job.memory else _REFUSED,
    }
    template = files("hpo.integrations").joinpath("templates", f"{kind}.txt").read_text()
    if job.nodes == 1:
        template = template.partition(_WORKERS)[0]
    return re.sub(r"@([a-z]+)@", lambda found: str(values[found[1]]), template)
