"""An objective as it is given from Python: a function, or the path of one."""

import inspect
import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hpo.engine.objective.kept_function import MODULE, KeptFunction
from hpo.engine.objective.path import Form, ObjectivePath, origin_of
from hpo.errors import ConfigError
from hpo.interface.given.objects import Objects
from hpo.interface.given.optuna_shape import is_optuna_shape


@dataclass(frozen=True)
class GivenObjective:
    """The text of an objective for the configuration, and the function where no worker could import it."""

    text: str
    kept: KeptFunction | None = None

    @classmethod
    def of(
        cls, objective: Callable[..., Any] | str, searched: Collection[str], objects: Objects | None = None
    ) -> "GivenObjective":
        """Read a function, or the path of one; `searched` are the names at the top of the space.

        A function that gets objects in place of JSON is kept with its study. ConfigError where it cannot be called with
        a configuration, or not be sent to workers.
        """
        objects = objects or Objects()
        if isinstance(objective, str):
            objects.refuse_all()
            return cls(objective)
        if not callable(objective):
            raise ConfigError(f"objective: must be a function or 'package.module:function', given {objective!r}")
        name = getattr(getattr(objective, "func", objective), "__name__", type(objective).__name__)
        name = name if name.isidentifier() else "objective"
        form = _form(objective, name, searched)
        module = getattr(objective, "__module__", None) or ""
        is_importable = _is_importable(objective, module)
        called = objects.given_to(objective, is_importable)
        if is_importable and called is objective:
            path = str(ObjectivePath(module, objective.__name__, form))
            try:
                origin_of(path, str(Path.cwd()))
            except ConfigError:
                pass  # It is in a package that no worker may take objectives from by their name.
            else:
                return cls(path)
        return cls(str(ObjectivePath(MODULE, name, form)), KeptFunction.of(called, name))


def _form(objective: Callable[..., Any], name: str, searched: Collection[str]) -> Form:
    if is_optuna_shape(objective, has_space=True):
        return "trial"
    try:
        parameters = inspect.signature(objective).parameters.values()
    except (TypeError, ValueError):
        return "config"
    places = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    needed = [p for p in places if p.default is p.empty]
    named = [p for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
    has_any = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    must = f"objective: must be called as f(config) or f(config, trial), given {name}{inspect.signature(objective)}"
    if named or len(needed) > 2 or (not places and not has_any):
        raise ConfigError(must)
    if taken := [p.name for p in needed if p.name in searched and p.name not in ("config", "trial")]:
        raise ConfigError(f"{must}; what is searched comes in config: config['{taken[0]}']")
    takes_trial = len(needed) == 2 or (len(places) > 1 and places[1].name in ("trial", "report"))
    return "config, trial" if takes_trial else "config"


def _is_importable(objective: Callable[..., Any], module: str) -> bool:
    """Return whether a worker finds the same object by its module and name."""
    name = getattr(objective, "__name__", "")
    if module in ("", "__main__") or getattr(objective, "__qualname__", "") != name:
        return False
    return getattr(sys.modules.get(module), name, None) is objective
