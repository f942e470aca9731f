"""`new`, which writes a training module and its configuration, and `cluster`, which writes a job to submit."""

import keyword
import os
import re
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal

from hpo.commands.arguments import ConfigFile, ConfigFolder, Fields, Overrides, Word, list_of, refuse_without_effect
from hpo.config.keys import OWN, SEARCH_SECTIONS
from hpo.config.secrets import hide_in_argument
from hpo.config.shipped import names_of
from hpo.errors import ConfigError

FOLDER = "my_conf"
# YAML or Hydra does not read these words as texts.
_NO_TEXTS = ("yes", "no", "on", "off", "true", "false", "null", "nan", "inf")


@dataclass(frozen=True)
class Created(Fields):
    """The module and the configuration that `new` has written.

    Attributes:
        name: the name of the module and of the study.
        files: the paths of the module and the configuration.
        config_dir: the folder to give as `--config-dir`.
    """

    name: str
    files: Sequence[Path]
    config_dir: str = FOLDER

    def __str__(self) -> str:
        wrote = " and ".join(map(str, self.files))
        return f"wrote {wrote}\nnext:   hpo search --config-dir {self.config_dir} study={self.name}"


def new(name: Annotated[str, Word("NAME")]) -> Created:
    """Write a training module and its configuration: a working example to adapt.

    Args:
        name: the name of the module and of the study.

    Raises:
        hpo.HpoError: the name is not allowed for a module, another module has this name, or a file exists already.

    Examples:
        hpo new forest                                    forest.py and my_conf/study/forest.yaml
        hpo search --config-dir my_conf study=forest      run the example
    """
    _refuse_bad_name(name)
    paths = {"objective.py.txt": Path(f"{name}.py"), "study.yaml.txt": Path(FOLDER, "study", f"{name}.yaml")}
    for path in paths.values():
        if path.exists():
            raise ConfigError(f"{path}: exists already; choose another name, or move this file away")
    for template, path in paths.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        text = files("hpo.commands").joinpath("templates", template).read_text()
        path.write_text(text.replace("NAME", name))
    return Created(name, [*paths.values()])


def _refuse_bad_name(name: str) -> None:
    if not (name.isascii() and name.isidentifier()) or keyword.iskeyword(name) or name in ("hpo", "model"):
        raise ConfigError(
            f"name: must be the name of a Python module (letters a-z and A-Z, digits, '_') other than hpo and model, "
            f"given {name!r}"
        )
    if name in (*SEARCH_SECTIONS, OWN, "defaults", *names_of("study")) or name.lower() in _NO_TEXTS:
        raise ConfigError(
            f"name: must not have a meaning in a configuration (a section, a shipped study, or a word such as yes or "
            f"null), given {name!r}; choose another name"
        )
    if name in sys.stdlib_module_names or find_spec(name) is not None:
        raise ConfigError(f"name: a module '{name}' exists already; choose another name")


_SUFFIXES = {"slurm": "sbatch", "kubernetes": "yaml", "local": "sh"}
_NEXT = {"slurm": "sbatch", "kubernetes": "kubectl apply -f", "local": "bash"}
_ADDRESS = "dispatch.address"


@dataclass(frozen=True)
class ClusterJob(Fields):
    """A job to submit.

    Attributes:
        kind: `slurm`, `kubernetes` or `local`.
        path: the file; `null` with `--output -`.
        text: the content of the file.
        fill_in: the placeholders that the user must replace in the file before submitting the file.
        next: the command that submits the file; `null` without a file.
    """

    kind: str
    path: Path | None
    text: str
    fill_in: Sequence[str]
    next: str | None

    def __str__(self) -> str:
        if self.path is None:
            return self.text.removesuffix("\n")
        missing = [f"replace {', '.join(self.fill_in)} in this file first"] if self.fill_in else []
        return "\n".join([f"wrote {self.path}", *missing, f"next:   {self.next}"])


def _matching(option: str, pattern: str, must: str, hint: str = "", kind: type = str) -> Callable[[str], Any]:
    """Return a function that reads the value of an option; it raises ConfigError if the pattern does not match."""

    def read(text: str) -> Any:
        if not re.fullmatch(pattern, text):
            raise ConfigError(f"{option}: must be {must}, given {text!r}{hint}")
        return kind(text)

    return read


def _count(option: str) -> Word:
    return Word("N", read=_matching(option, r"0*[1-9]\d*", "a whole number, 1 or more", kind=int))


def _word(option: str) -> Word:
    return Word(read=_matching(option, r"[\w./:@-]+", "one word"))


_gpus = _matching("--gpus", r"\d+", "a whole number, 0 or more", kind=int)
_memory = _matching("--memory", r"[1-9]\d*[KMGT]", "a number and K, M, G or T", "; write 64G")
_time = _matching("--time", r"(\d+-)?\d{1,3}:\d\d:\d\d", "HH:MM:SS or D-HH:MM:SS", "; write 04:00:00")
_host = _matching("--hosts", r"[\w./:@-]+", "names separated by commas")


def cluster(
    kind: Literal["slurm", "kubernetes", "local"],
    overrides: Overrides = (),
    *,
    nodes: Annotated[int, _count("--nodes")] = 1,
    cpus: Annotated[int | None, _count("--cpus")] = None,
    gpus: Annotated[int, Word("N", read=_gpus)] = 0,
    memory: Annotated[str | None, Word(read=_memory)] = None,
    time: Annotated[str | None, Word(read=_time)] = None,
    partition: Annotated[str | None, _word("--partition")] = None,
    image: Annotated[str | None, _word("--image")] = None,
    hosts: Annotated[Sequence[str], Word(read=list_of(_host))] = (),
    output: Annotated[str | None, Word("FILE")] = None,
    config_dir: ConfigFolder | None = None,
    config: ConfigFile | None = None,
) -> ClusterJob:
    """Write the job that runs a search on a cluster: for Slurm, for Kubernetes, or for machines reached by ssh.

    Args:
        kind: slurm | kubernetes (a RayJob) | local (machines reached by ssh).
        nodes: with slurm, the number of machines; with kubernetes, the number of pods (default: 1).
        cpus: number of CPUs per machine (default: as many as this machine has).
        gpus: with slurm or kubernetes, the number of GPUs per machine (default: 0).
        memory: with slurm or kubernetes, the memory per machine, such as 64G.
        time: with slurm, the time limit of the job, HH:MM:SS.
        partition: with slurm, the partition of the cluster.
        image: with kubernetes, the container image with hpo and your code.
        hosts: with local, the machines to use in addition to this machine, separated by commas.
        output: the file to write (default: named after the study); '-' prints the job instead.

    Raises:
        hpo.HpoError: an argument is not allowed, or the file exists.

    Examples:
        hpo cluster slurm --nodes 2 --cpus 16 --gpus 4 --memory 128G --partition gpu --time 12:00:00 study.name=big
        sbatch big.sbatch
        hpo cluster kubernetes --nodes 4 --gpus 1 --memory 32G --image me/hpo:1 study.name=big study.mirror=s3://b/hpo
        kubectl apply -f big.yaml
        hpo cluster local --hosts ann,bob study.name=big      this machine, and others by ssh
        bash big.sh
    """
    for text in overrides:
        if (hidden := hide_in_argument(text)) != text:
            raise ConfigError(
                f"{hidden}: must not hold a secret, because the job file would show it; write ${{oc.env:NAME}} as the "
                f"value, in single quotes, and set NAME on the cluster"
            )
        if text.lstrip("+").startswith(f"{_ADDRESS}="):
            raise ConfigError(
                f"{_ADDRESS}: must not be set, given {text!r}; leave it out, because the job starts its own Ray cluster"
            )
    from hpo.commands.given.settings import compose_search
    from hpo.config.study_config import config_from_dict
    from hpo.integrations.clusters import FILL_IN, Job, write_job

    study = config_from_dict(compose_search(overrides, config_dir, config))
    if not study.dispatch.type.has_own_processes:
        raise ConfigError(
            f"dispatch: must be ray, given {study.dispatch.name}; a job starts its own Ray cluster, so leave the "
            f"setting out to get ray, the default"
        )
    pods = ("--nodes", "--gpus", "--memory")
    own = {"slurm": ("--time", "--partition", *pods), "kubernetes": ("--image", *pods), "local": ("--hosts",)}
    given: dict[str, Any] = {"--time": time, "--partition": partition, "--image": image, "--hosts": hosts}
    given |= {"--nodes": nodes > 1, "--gpus": gpus > 0, "--memory": memory}
    refuse_without_effect({name: value for name, value in given.items() if name not in own[kind]}, f"with {kind}")
    options = [("--config", config), ("--config-dir", config_dir)]
    words = [word for option, path in options if path for word in (option, path)]
    environment = os.environ.get("VIRTUAL_ENV")
    job = Job(
        name=study.study.name,
        arguments=[*words, *overrides],
        mirror=study.study.mirror,
        nodes=nodes,
        cpus=cpus or os.cpu_count() or 1,
        gpus=gpus,
        memory=memory,
        time=time,
        partition=partition,
        image=image,
        hosts=hosts,
        activate=None if environment is None else str(Path(environment) / "bin" / "activate"),
    )
    path = Path(output or f"{job.name}.{_SUFFIXES[kind]}")
    text = write_job(kind, job, str(path))
    missing = sorted(set(re.findall(rf"{FILL_IN}_[A-Z]+", text)))
    if output == "-":
        return ClusterJob(kind, None, text, missing, None)
    if path.exists():
        raise ConfigError(f"--output: {path} exists; delete it, or give another name")
    path.write_text(text, encoding="utf-8")
    return ClusterJob(kind, path, text, missing, f"{_NEXT[kind]} {shlex.quote(str(path))}")
