"""Writes job files that run a search on a cluster: with Slurm, with KubeRay, or over ssh."""

import importlib.metadata
import json
import re
import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.resources import files

FILL_IN = "FILL_IN"
"""Prefix of the placeholders for values that only the user knows."""

_REFUSED = f"# Kubernetes refuses this file until everything that begins with {FILL_IN} is filled in.\n"
_WORKERS = "    workerGroupSpecs:\n"


@dataclass(frozen=True)
class Job:
    """A search as a job of a cluster. `write_job` returns the content of the job file.

    The attributes `memory`, `time`, `partition` and `image` may be None. If the job file uses an attribute that is
    None, the file has a placeholder for the value. The user must replace each placeholder by a value.

    Attributes:
        name: the name of the study.
        arguments: the arguments of `hpo search`.
        mirror: the URL of the study's mirror; None = the study has no mirror.
        nodes: the number of machines; it has no effect on a job of the kind `local`, which has `hosts`.
        cpus, gpus, memory: the resources of each machine; memory such as `64G`. A job of the kind `local` uses only
            `cpus`: Ray counts the GPUs of its machines.
        time: the time limit of a `slurm` job.
        partition: the partition of a `slurm` job.
        image: the container image of the pods of a `kubernetes` job.
        hosts: for a job of the kind `local`, all machines except the one that runs the job's script; the script reaches
            these machines over ssh.
        activate: the script that activates the virtual environment; None = there is no virtual environment.
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
        """Return the shell commands that start the search, or resume it if the study exists.

        If the study has a mirror, the commands first check whether the study's folder is on the machine that runs them.
        If the folder is missing, the commands run `hpo resume` with the mirror's URL, to copy the study from the mirror
        and continue it. If the mirror has no copy yet, the commands start the search.
        """
        joined = f'"dispatch.address={address}"'
        search = f"exec hpo search {shlex.join(self.arguments)} {joined}"
        if self.mirror is None:
            return search
        # The job's own study needs no question about its code, although another machine has made it.
        copy = f"hpo resume {shlex.quote(self.mirror)} --trust {joined}"
        folder = shlex.quote(f"runs/{self.name}")
        # Exit code 2 usually means that the mirror has no copy of the study yet.
        copying = f'if [ ! -e {folder} ]; then code=0; {copy} || code=$?; [ "$code" -eq 2 ] || exit "$code"; fi'
        return separator.join([copying, search])


def write_job(kind: str, job: Job, file: str) -> str:
    """Return the content of a job file.

    Args:
        kind: `slurm` or `local` = a script that starts a Ray cluster on the job's machines; `kubernetes` = a RayJob,
            whose pods live as long as the search.
        job: the search and its resources.
        file: the name of the job file.
    """
    fields = {name: f"{FILL_IN}_{name.upper()}" if value is None else value for name, value in asdict(job).items()}
    memory, gpus = str(fields["memory"]), job.gpus
    amounts = {"cpu": str(job.cpus), "memory": re.sub(r"^(\d+)([KMGT])$", r"\1\2i", memory)}
    values = fields | {
        "file": shlex.quote(file),
        "activate": f". {shlex.quote(job.activate)}\n" if job.activate else "",
        "commands": job.commands("$address"),
        "gpus": f"#SBATCH --gpus-per-node={gpus}\n" if gpus else "",
        "hosts": shlex.join(job.hosts),
        "pods": re.sub(r"[^a-z0-9]+", "-", job.name.lower())[:40].strip("-"),
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
