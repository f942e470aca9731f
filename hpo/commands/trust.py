"""Asks whether the user trusts a study from another machine, after printing which code the study would run."""

import sys
from collections.abc import Collection, Mapping, Sequence
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hpo.commands.arguments import is_yes
from hpo.config.keys import within
from hpo.config.secrets import redacted_keys, redacted_names, texts_of
from hpo.config.study_config import StudyConfig
from hpo.errors import ConfigError, printable
from hpo.study.files.made_here import is_made_here, remember
from hpo.workers.objective.path import MODULE, ObjectivePath, Origin, origin_of
from hpo.workers.objective.pickled_function import PickledFunction
from hpo.workers.objective.resolution import resolve

_ORIGINS = {
    "toolkit": "part of this toolkit",
    "declared": "declared by an installed package",
    "working directory": "in your working directory",
    "given from Python": "a pickled function, whose file runs code when it is read",
}


def ask_for_trust(
    config: StudyConfig,
    changes: Sequence[str],
    is_given: bool,
    pickled: PickledFunction | None = None,
    earlier: Sequence[Mapping[str, Any]] = (),
    own_keys: Collection[str] = (),
    places: Sequence[str] = (),
    packages: Sequence[str] = (),
    commands: Sequence[str] = (),
) -> None:
    """Ask the user whether a study from another machine may run its code, and remember a yes.

    If `is_given` is true, the answer is yes without a question. If `places`, `packages` and `commands` are all empty,
    two more cases need no question:

    - On this machine, the user has run or trusted a study with the same objective, configuration and space.
    - The objective is part of the toolkit, the strategy is not a user's class, and no configuration contains code,
      references to environment variables with secrets, or paths outside of the working directory.

    Raise ConfigError if there is no terminal to ask in, or if the user says no.

    Args:
        changes: what changed since the study was recorded, one text per change; printed before the question.
        earlier: other configurations with which some trials were trained.
        own_keys: keys whose values this user has given.
        places: addresses that the study connects to.
        packages: settings with packages that the study's workers install.
        commands: settings with commands that the study runs on this machine.
    """
    configs = [config, *(config.model_copy(update={"objective_config": dict(tree)}) for tree in earlier)]
    # A trusted objective does not make new addresses, packages or commands trusted.
    if not (places or packages or commands) and all(is_made_here(each, pickled) for each in configs):
        return
    origin = origin_of(config.objective, str(Path.cwd()))
    trees = [each.objective_config for each in configs]
    keys = list(dict.fromkeys(key for tree in trees for key in redacted_keys(tree)))
    code, files = _code_and_files([*trees, config.space], config, own_keys) if origin == "toolkit" else ([], [])
    if origin == "toolkit" and not (keys or code or files or places or packages or commands or config.has_own_strategy):
        return
    strategy = f" and the strategy {config.strategy['name']}" if config.has_own_strategy else ""
    summary = f"it runs {config.objective} ({_file(config.objective, origin)}, {_ORIGINS[origin]}){strategy}"
    parts = {
        "also runs": code,
        "reads outside of the working directory:": files,
        "connects to": places,
        "installs on its workers": packages,
        "runs on this machine": commands,
    }
    summary += "".join(f", and {verb} {', '.join(part)}" for verb, part in parts.items() if part)
    if keys:
        names = dict.fromkeys(name for tree in trees for name in redacted_names(tree))
        summary += f", and reads {', '.join(names)} from your environment ({', '.join(keys)})"
    if not is_given:
        _ask(printable(summary), changes)
    for each in configs:
        remember(each, pickled, (*places, *packages, *commands))


def _code_and_files(
    trees: Sequence[Mapping[str, Any]], config: StudyConfig, own_keys: Collection[str]
) -> tuple[list[str], list[str]]:
    """Return two lists of `KEY=VALUE`: the values that are code, and the paths outside of the working directory.

    A value is code if the objective lists its key in `code_keys`. Paths whose keys are in `own_keys` are left out.
    """
    # A key in a space continues after the objective's key, as in `command.line.choices.0`.
    code_keys = resolve(config.objective, str(Path.cwd())).code_keys
    texts = dict.fromkeys((key, text) for tree in trees for key, text in texts_of(tree))
    code = [(key, text) for key, text in texts if any(within(key, name) for name in code_keys)]
    out = [(key, text) for key, text in texts if (key, text) not in code and key not in own_keys and _leads_out(text)]
    return [f"{key}={text!r}" for key, text in code], [f"{key}={text!r}" for key, text in out]


def _leads_out(text: str) -> bool:
    """Return whether a text, read as a path, is outside of the working directory. Links are followed."""
    here = Path.cwd().resolve()
    try:
        return ".." in Path(text).parts or not Path(here, text).resolve().is_relative_to(here)
    except (OSError, ValueError, RuntimeError):
        # The text cannot be a path.
        return False


def _ask(summary: str, changes: Sequence[str]) -> None:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise ConfigError(
            f"study: was not made on this machine: {summary}; read the study's code, then allow this code with --trust "
            f"(in Python: trust=True)"
        )
    print(f"this study was not made on this machine: {summary}")
    for change in changes:
        print(f"what changed: {printable(change)}")
    if not is_yes("run it?"):
        raise ConfigError("study: was not made on this machine, and you did not allow its code: nothing was run")


def _file(objective: str, origin: Origin) -> str:
    """Return the file of an objective's module without importing the module; `unknown` if the module is not found.

    For the toolkit's objectives, return `hpo`; for pickled functions, return `MODULE`.
    """
    if origin in ("toolkit", "given from Python"):
        return "hpo" if origin == "toolkit" else MODULE
    top, *inner = ObjectivePath.of(objective).module.split(".")
    spec = PathFinder.find_spec(top, [str(Path.cwd())]) if origin == "working directory" else find_spec(top)
    if spec is None:
        return "unknown"
    folders = list(spec.submodule_search_locations or ())
    inside = [Path(folder, *inner) for folder in folders if inner]
    files = [file for path in inside for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()]
    return str(files[0] if files else spec.origin or folders[0])
