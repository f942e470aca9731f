"""Decides how an objective is called: the names of the parameters that it needs say it."""

import inspect
from collections.abc import Callable, Collection
from types import CodeType
from typing import Any

from hpo.errors import ConfigError
from hpo.workers.objective.path import Form

SUGGESTS = ("suggest_float", "suggest_int", "suggest_categorical", "suggest_uniform", "suggest_loguniform")


def form_of(function: Callable[..., Any], searched: Collection[str] | None) -> Form:
    """Return how a function is called: f(task), f(config), f(config, trial), or f(trial) of Optuna's shape.

    `searched` are the names at the top of the space, beside which f(trial) is of that shape if it suggests; None = no
    space is given. ConfigError for a function that cannot be called in any of these ways.
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        # A function that is written in C may have none.
        return "config"
    parameters = signature.parameters.values()
    places = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    needed = [p.name for p in places if p.default is p.empty]
    named = [p for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
    has_any = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    given = f"{name_of(function)}{signature}"
    must = f"objective: must be called as f(config), f(config, trial), f(trial) or f(task), given {given}"
    if named or len(needed) > 2 or (len(needed) == 2 and "task" in needed) or (not places and not has_any):
        raise ConfigError(must)
    if needed == ["task"]:
        return "task"
    suggests = len(needed) == 1 and _suggests(getattr(function_of(function), "__code__", None))
    if needed == ["trial"] and (suggests or searched is None):
        return "trial"
    if suggests and searched is None:
        raise ConfigError(f"objective: suggests what is searched, and takes '{needed[0]}'; call it 'trial'")
    if taken := [each for each in needed if each in (searched or ()) and each not in ("config", "trial")]:
        raise ConfigError(f"{must}; what is searched comes in config: config['{taken[0]}']")
    takes_trial = len(needed) == 2 or (len(places) > 1 and places[1].name in ("trial", "report"))
    return "config, trial" if takes_trial else "config"


def name_of(function: Callable[..., Any]) -> str:
    """Return what a function is called, also where it is in a partial or has no name."""
    name = getattr(getattr(function, "func", function), "__name__", type(function).__name__)
    return name if name.isidentifier() else "objective"


def function_of(objective: Any) -> Any:
    """Return the function of a partial, a method or an object that is called."""
    inner = getattr(objective, "func", objective)
    return inner if inspect.isfunction(inner) else getattr(inner, "__func__", type(inner).__call__)


def _suggests(code: CodeType | None) -> bool:
    """Return whether a function names a suggestion, or one inside of it."""
    if code is None:
        return False
    inner = (each for each in code.co_consts if isinstance(each, CodeType))
    return any(name in SUGGESTS for name in code.co_names) or any(map(_suggests, inner))
