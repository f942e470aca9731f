"""`hpo cluster`: write what to submit so that a study is searched on a cluster, or goes on there."""

import argparse
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hpo.cli.arguments import add_config, add_json, make_parser
from hpo.cli.output import show_json
from hpo.errors import ConfigError

if TYPE_CHECKING:
    from hpo.integrations.clusters import Job

_EXAMPLES = """\
  hpo cluster slurm --nodes 2 --cpus 16 --gpus 4 --memory 128G --partition gpu --time 12:00:00 study.name=big
  sbatch big.sbatch
  hpo cluster kubernetes --nodes 4 --gpus 1 --memory 32G --image me/hpo:1 study.name=big study.mirror=s3://bucket/hpo
  kubectl apply -f big.yaml
  hpo cluster local --hosts ann,bob study.name=big      this machine, and others by ssh
  bash big.sh"""
_ASKED = ("nodes", "cpus", "gpus", "memory", "time", "partition", "image", "hosts")
_SUFFIXES = {"slurm": "sbatch", "kubernetes": "yaml", "local": "sh"}
_NEXT = {"slurm": "sbatch", "kubernetes": "kubectl apply -f", "local": "bash"}
_ADDRESS = "dispatch.address"


def run(arguments: Sequence[str]) -> None:
    """Run the command."""
    parser = make_parser("cluster", __doc__, _EXAMPLES)
    parser.add_argument("kind", choices=list(_SUFFIXES), help="slurm | kubernetes (a RayJob) | local (machines by ssh)")
    add_config(parser)
    parser.add_argument("--nodes", type=_count, default=1, help="how many machines, or pods (default: 1)")
    what = "processors of each (default: as many as here)"
    parser.add_argument("--cpus", type=_count, default=os.cpu_count() or 1, help=what)
    parser.add_argument("--gpus", type=_number, default=0, help="GPUs of each (default: 0)")
    parser.add_argument("--memory", type=_memory, help="memory of each, such as 64G")
    parser.add_argument("--time", type=_time, help="slurm: the longest that the job may take, HH:MM:SS")
    parser.add_argument("--partition", type=_word, help="slurm: the partition of the cluster")
    parser.add_argument("--image", type=_word, help="kubernetes: the container image that has hpo and your code")
    parser.add_argument("--hosts", type=_hosts, default=(), help="local: the other machines, separated by commas")
    parser.add_argument("--output", metavar="FILE", help="write it there (default: the study's name); - prints it")
    add_json(parser)
    given = parser.parse_intermixed_args(arguments)
    job = _job(given)

    from hpo.integrations.clusters import FILL_IN, write_job

    path = Path(given.output or f"{job.name}.{_SUFFIXES[given.kind]}")
    text = write_job(given.kind, job, str(path))
    missing, command = sorted(set(re.findall(rf"{FILL_IN}_[A-Z]+", text))), f"{_NEXT[given.kind]} {path}"
    job_json = {"kind": given.kind, "path": None, "text": text, "fill_in": missing, "next": None}
    if given.output == "-":
        if not given.json:
            print(text, end="")
        show_json(job_json)
        return
    if path.exists():
        raise ConfigError(f"--output: {path} exists; delete it, or give another name")
    path.write_text(text, encoding="utf-8")
    print(f"wrote {path}")
    if missing:
        print(f"fill in {', '.join(missing)} there first")
    print(f"next:   {command}")
    show_json(job_json | {"path": path.absolute(), "next": command})


def _job(given: argparse.Namespace) -> "Job":
    """Return the job, after its study's configuration was read as `hpo search` would."""
    if given.cfg:
        raise ConfigError("--cfg: has no effect here; `hpo search --cfg job` prints the configuration")
    for text in given.overrides:
        if text.lstrip("+").startswith(f"{_ADDRESS}="):
            raise ConfigError(f"{_ADDRESS}: the job sets it to its own Ray cluster, given {text!r}; leave it out")

    from hpo.commands.given.settings import compose_search
    from hpo.config.study_config import config_from_dict
    from hpo.integrations.clusters import Job

    config = config_from_dict(compose_search(given.overrides, given.config_dir, given.config))
    if not config.dispatch.type.has_own_processes:
        raise ConfigError(f"dispatch: must be ray on a cluster, given {config.dispatch.name}; leave it out")
    files = {"--config": given.config, "--config-dir": given.config_dir}
    options = [word for option, path in files.items() if path for word in (option, path)]
    environment = os.environ.get("VIRTUAL_ENV")
    activate = None if environment is None else str(Path(environment) / "bin" / "activate")
    asked: dict[str, Any] = {name: getattr(given, name) for name in _ASKED}
    return Job(config.study.name, [*options, *given.overrides], mirror=config.study.mirror, activate=activate, **asked)


def _matching(pattern: str, must: str, hint: str = "", kind: type[str] | type[int] = str) -> Callable[[str], Any]:
    """Return what reads an argument of this form."""

    def read(text: str) -> str | int:
        if not re.fullmatch(pattern, text):
            raise argparse.ArgumentTypeError(f"must be {must}, given {text!r}{hint}")
        return kind(text)

    return read


_number = _matching(r"\d+", "a whole number, 0 or more", kind=int)
_count = _matching(r"0*[1-9]\d*", "a whole number, 1 or more", kind=int)
_memory = _matching(r"[1-9]\d*[KMGT]", "a number and K, M, G or T", "; write 64G")
_time = _matching(r"(\d+-)?\d{1,3}:\d\d:\d\d", "HH:MM:SS or D-HH:MM:SS", "; write 04:00:00")
_word = _matching(r"[\w./:@-]+", "one word")


def _hosts(text: str) -> tuple[str, ...]:
    return tuple(map(_word, text.split(",")))
