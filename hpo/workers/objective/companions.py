"""The functions beside an objective that a search may ask: their names, how they are given and how they are called."""

import functools
from collections.abc import Callable, Mapping
from typing import Any, overload

from pydantic import ValidationError

from hpo.config.sealing import Secrets, excerpt, hide_secrets, hide_secrets_in, open_sealed, values_of
from hpo.config.study_config import explain
from hpo.errors import ConfigError, DataError, HpoError, is_interruption, nearest, text_of
from hpo.machine import machine_fault
from hpo.workers.objective.examples import Examples
from hpo.workers.objective.process_state import Containment

LONGEST_REASON = 200  # characters of an error in a user's own code
COMPANIONS = (
    *("check", "describe_data", "describe_method", "describe_search", "prepare_data", "run_test"),
    *("predict", "describe_prediction", "attention", "describe_cost", "describe_defaults"),
    *("describe_scales", "describe_length", "output_sizes"),
)
TAKE_CONFIG = tuple(name for name in COMPANIONS if name not in ("run_test", "predict", "attention", "output_sizes"))
# Parts of their answers that people see; the rest (labels, hashes, a space) is not searched for secrets.
_SHOWN = ("name", "source", "licence", "files", "notes", "preprocessing", "vocabulary")
_CONSTANTS = ("continues", "continues_with", "reports_again")
_ALL = (*COMPANIONS, *_CONSTANTS)


@overload
def objective(function: Callable[..., Any], /) -> Callable[..., Any]: ...
@overload
def objective(**companions: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]: ...
def objective(function: Callable[..., Any] | None = None, /, **companions: Any) -> Callable[..., Any]:
    """Return a decorator that gives a plain function what the search may ask besides training.

    Args:
        function: given by `@hpo.objective` without parentheses, and then returned.
        companions: by the names of `hpo.workers.objective.objective.Objective`, such as `run_test`,
            `describe_data`, `describe_cost`, `predict`, and `continues=True` for a function that goes on from
            `trial.resume_dir`.

    Raises:
        ConfigError: there is no such companion.
    """
    for name in companions:
        if name not in _ALL:
            raise ConfigError(f"objective: has no companion '{name}'{nearest(name, _ALL)}")

    def give(function: Callable[..., Any]) -> Callable[..., Any]:
        for name, companion in companions.items():
            setattr(function, name.upper() if name in _CONSTANTS else name, companion)
        return function

    return give if function is None else give(function)


def guard(companion: Callable[..., Any], name: str, secrets: Secrets) -> Callable[..., Any]:
    """Return the function for sealed configurations: its answers show no secret, its errors are one HpoError each."""

    @functools.wraps(companion)
    def call(config: Mapping[str, Any], *arguments: Any) -> Any:
        values = values_of(config, secrets)
        try:
            with Containment(values).enter():
                answer = companion(open_sealed(config, values), *arguments)
        except BaseException as error:
            if is_interruption(error) or machine_fault(error) is not None:
                raise
            raise _refusal(name, error, values) from error
        if isinstance(answer, Examples):
            answer = vars(answer)
        if not isinstance(answer, Mapping) or not values:
            return answer
        return {key: hide_secrets_in(part, values) if key in _SHOWN else part for key, part in answer.items()}

    return call


def guard_task(companion: Callable[..., Any], name: str, secrets: Secrets) -> Callable[..., Any]:
    """Return the function for tasks of sealed configurations, as `guard` does for configurations."""

    @functools.wraps(companion)
    def call(task: Mapping[str, Any]) -> Any:
        return guard(lambda config: companion({**task, "config": config}), name, secrets)(task["config"])

    return call


def _refusal(name: str, error: BaseException, values: Secrets) -> HpoError:
    """Return the user's error for an error of a companion."""
    if isinstance(error, HpoError):
        return type(error)(hide_secrets(str(error), values))
    if isinstance(error, ValidationError):
        return ConfigError(hide_secrets(explain(error), values))
    if isinstance(error, OSError) and error.filename is not None:
        return DataError(hide_secrets(f"data: {error.filename}: {error.strerror}; give a readable file", values))
    text = excerpt(text_of(error), values)
    if isinstance(error, ValueError) and text:
        # Written for people.
        return ConfigError(text)
    text, kind = text[:LONGEST_REASON], type(error).__name__
    return ConfigError(f"objective: {name} raised {f'{kind}: {text}' if text else kind}; --debug shows where")
