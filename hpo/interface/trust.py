"""Shows what a study that was not made here would run, and asks before it is run."""

import sys
from collections.abc import Sequence
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path

from hpo.config.sealing import sealed_keys, sealed_names
from hpo.config.study_config import StudyConfig
from hpo.engine.training.objective.kept_function import MODULE, KeptFunction
from hpo.engine.training.objective.origin import Origin, origin_of
from hpo.engine.training.objective.path import ObjectivePath
from hpo.errors import ConfigError
from hpo.study.made_here import is_made_here, remember

_WHOSE = {
    "toolkit": "this toolkit's own",
    "declared": "an installed package's, which declares it",
    "working directory": "in your working directory",
    "given from Python": "a function in a file that runs code when it is read",
}


def ask_for_trust(
    config: StudyConfig, changes: Sequence[str], is_given: bool, kept: KeptFunction | None = None
) -> None:
    """Return for a study that was made here or that runs only the toolkit's code; ask before any other.

    Args:
        config: the study's.
        changes: what has changed since the study was made, one line each.
        is_given: whether `--trust` was given.
        kept: its objective, if that was given from Python.

    Raises:
        ConfigError: there is no terminal to ask at, or the answer is no.
    """
    origin = origin_of(config.objective, str(Path.cwd()))
    keys = list(sealed_keys(config.objective_config))
    if is_made_here(config, kept) or (origin == "toolkit" and not keys and not config.has_own_strategy):
        return
    what = f"it runs {config.objective} ({_file(config.objective, origin)}, {_WHOSE[origin]})"
    if config.has_own_strategy:
        what += f" and the strategy {config.strategy['name']}"
    if keys:
        what += f" with {', '.join(sealed_names(config.objective_config))} of your environment ({', '.join(keys)})"
    if not is_given:
        _ask(what, changes)
    remember(config, kept)


def _ask(what: str, changes: Sequence[str]) -> None:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise ConfigError(f"study: was not made here: {what}; look at it, and trust it (--trust, trust=True) to run it")
    print(f"this study was not made here: {what}")
    for change in changes:
        print(f"what changed: {change}")
    if input("run it? (yes/no) ").strip().lower() not in ("y", "yes"):
        raise ConfigError("study: was not made here, and is not trusted: nothing was run")


def _file(objective: str, origin: Origin) -> str:
    """Return the file of an objective's module, as far as it can be found without importing anything."""
    if origin in ("toolkit", "given from Python"):
        return "hpo" if origin == "toolkit" else MODULE
    top, *inner = ObjectivePath.of(objective).module.split(".")
    spec = PathFinder.find_spec(top, [str(Path.cwd())]) if origin == "working directory" else find_spec(top)
    folders = list(spec.submodule_search_locations or ()) if spec is not None else []
    for folder in folders if inner else ():
        for place in (Path(folder, *inner).with_suffix(".py"), Path(folder, *inner, "__init__.py")):
            if place.is_file():
                return str(place)
    return str(spec.origin or folders[0]) if spec is not None else "unknown"
