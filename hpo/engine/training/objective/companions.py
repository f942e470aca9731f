"""Gives a plain function what the search may ask besides training."""

from collections.abc import Callable
from typing import Any, overload

from hpo.engine.training.objective.resolution import COMPANIONS
from hpo.errors import ConfigError, nearest

_CONSTANTS = ("continues", "continues_with")
_COMPANIONS = (*COMPANIONS, *_CONSTANTS)


@overload
def objective(function: Callable[..., Any], /) -> Callable[..., Any]: ...
@overload
def objective(**companions: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]: ...
def objective(function: Callable[..., Any] | None = None, /, **companions: Any) -> Callable[..., Any]:
    """Return a decorator that gives a plain function what the search may ask besides training.

    Args:
        function: given by `@hpo.objective` without parentheses, and then returned.
        companions: by the names of `hpo.engine.training.objective.objective.Objective`, such as `run_test`,
            `describe_data`, `describe_cost`, `predict`, and `continues=True` for a function that goes on from
            `trial.resume_dir`.

    Raises:
        ConfigError: there is no such companion.
    """
    for name in companions:
        if name not in _COMPANIONS:
            raise ConfigError(f"objective: has no companion '{name}'{nearest(name, _COMPANIONS)}")

    def give(function: Callable[..., Any]) -> Callable[..., Any]:
        for name, companion in companions.items():
            setattr(function, name.upper() if name in _CONSTANTS else name, companion)
        return function

    return give if function is None else give(function)
