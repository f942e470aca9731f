"""Finds an objective by its path, with its companions, and turns what they raise into one line."""

import functools
import importlib
import inspect
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from pydantic import ValidationError

from hpo.config.sealing import Secrets, excerpt, hide_secrets, hide_secrets_in, open_sealed, values_of
from hpo.config.study_config import explain
from hpo.engine.training.examples import Examples
from hpo.engine.training.objective.kept_function import KeptFunction
from hpo.engine.training.objective.modules import out_of_the_way, put_first
from hpo.engine.training.objective.objective import Objective
from hpo.engine.training.objective.origin import Origin, origin_of, refuse_another
from hpo.engine.training.objective.own_place import OwnPlace
from hpo.engine.training.objective.path import ObjectivePath
from hpo.engine.training.objective.plain_function import as_run_fold
from hpo.engine.training.objective.suggesting_trial import suggested
from hpo.errors import ConfigError, DataError, HpoError, is_interruption, text_of
from hpo.machine import machine_fault

_LONGEST_REASON = 200  # characters of an error in a user's own code

COMPANIONS = (
    *("check", "describe_data", "describe_method", "describe_search", "prepare_data", "run_test"),
    *("predict", "describe_prediction", "attention", "describe_cost", "describe_defaults"),
)


_TAKE_CONFIG = (
    *("check", "describe_data", "describe_method", "describe_search", "describe_cost", "prepare_data"),
    *("describe_prediction", "describe_defaults"),
)
# Parts of their answers that people see; the rest (labels, hashes, a space) is not searched for secrets.
_SHOWN = ("name", "source", "licence", "files", "notes", "preprocessing", "vocabulary")


def resolve(
    path: str, import_from: str | None = None, secrets: Secrets | None = None, kept: KeptFunction | None = None
) -> Objective:
    """Find the objective and return it with its companions.

    Args:
        path: `package.module:function`, or that of a plain function; see `ObjectivePath`.
        import_from: a folder to import from besides installed packages, such as the working directory.
        secrets: opens configurations, besides the environment.
        kept: the function, if it was given from Python.

    Raises:
        ConfigError: the module or the function does not exist, or is not allowed: see `origin_of`.
    """
    values, given = secrets or {}, ObjectivePath.of(path)
    module = None
    if not given.is_kept:
        module = import_named("objective", path, given.module, import_from, values)
        function = getattr(module, given.function, None)
        if not callable(function):
            raise ConfigError(f"objective: module '{given.module}' has no function '{given.function}'")
    elif kept is None:
        raise ConfigError(
            f"objective: '{given.function}' was given from Python and is kept in the folder of its study alone; start "
            f"a study of it from Python, or put it into a module of its own and name that"
        )
    else:
        function = _loaded(kept, import_from)

    if inspect.isasyncgenfunction(function):
        raise ConfigError(
            f"objective: '{given.function}' is an asynchronous generator; write `async def {given.function}(config, "
            f"trial)`, with trial.report(...) in place of `yield`"
        )

    def companion(name: str, default: Any = None) -> Any:
        return getattr(function, name, getattr(module, name, default))

    companions = {name: companion(name) for name in COMPANIONS}
    for name in _TAKE_CONFIG:
        if companions[name] is not None:
            companions[name] = _guarded(companions[name], f"{given.module}.{name}", values)
    run_fold, run_test = function, companions.pop("run_test")
    if given.form != "task":
        is_optunas = given.form == "trial"
        run_fold = suggested(function) if is_optunas else as_run_fold(function, given.form == "config, trial")
        run_test = None if run_test is None else as_run_fold(run_test, takes_trial=True)
    code_files = companion("code_files")
    continues, keys = bool(companion("CONTINUES", False)), tuple(companion("CONTINUES_WITH", ()))
    return Objective(
        path,
        run_fold,
        run_test=run_test,
        **companions,
        continues=continues,
        continues_with=keys,
        code_keys=tuple(companion("CODE_KEYS", ())),
        code_files=None if code_files is None else _guarded(code_files, f"{given.module}.code_files", values),
        kept=kept,
    )


def _loaded(kept: KeptFunction, import_from: str | None) -> Callable[..., Any]:
    # What it uses of modules in the working directory is imported from there.
    if import_from:
        put_first(import_from)
    return kept.load()


def import_named(
    what: str, path: str, name: str, import_from: str | None, secrets: Secrets | None = None
) -> ModuleType:
    """Import a module that a configuration names, whatever that raises.

    Args:
        what: the key that names it, for messages.
        path: `package.module:name`, as it is given.
        name: the module's.
        import_from: a folder to import from besides installed packages, such as the working directory.
        secrets: hidden in messages.

    Raises:
        ConfigError: it cannot be imported, or is not allowed: see `origin_of`.
    """
    origin, secrets = origin_of(path, import_from, what), secrets or {}
    try:
        with OwnPlace(secrets).entered():
            module = _imported(what, name, origin, import_from)
    except ConfigError:
        raise
    except (ImportError, SyntaxError, ValueError) as error:
        text = excerpt(text_of(error), secrets, _LONGEST_REASON)
        raise ConfigError(f"{what}: cannot import '{name}': {text}; --debug shows where") from error
    except BaseException as error:
        if is_interruption(error):
            raise
        # The user's own module may raise anything, or exit like a script.
        text = excerpt(text_of(error), secrets, _LONGEST_REASON)
        raise ConfigError(
            f"{what}: importing '{name}' raised {type(error).__name__}: {text}; --debug shows where"
        ) from error
    refuse_another(module, origin, import_from, what)
    return module


def _imported(what: str, name: str, origin: Origin, import_from: str | None) -> ModuleType:
    """Import a module of the toolkit or a package without the working directory in the way, a user's with it first."""
    top = name.partition(".")[0]
    if top in sys.modules:
        refuse_another(sys.modules[top], origin, import_from, what)
    if origin != "working directory":
        with out_of_the_way(import_from or str(Path.cwd())):
            module = importlib.import_module(name if origin == "toolkit" else top)
        if origin == "toolkit":
            # Neither it nor the libraries that it imports later are searched for in the working directory.
            return module
    if import_from:
        put_first(import_from)
    return importlib.import_module(name)


def _guarded(companion: Callable[..., Any], name: str, secrets: Secrets) -> Callable[..., Any]:
    """Return the function as a callable for sealed configurations.

    The function gets them opened; its answers and errors show no secret. Every error is an HpoError of one line.
    """

    @functools.wraps(companion)
    def call(config: Mapping[str, Any], *arguments: Any) -> Any:
        values = values_of(config, secrets)
        try:
            with OwnPlace(values).entered():
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
    text, kind = text[:_LONGEST_REASON], type(error).__name__
    return ConfigError(f"objective: {name} raised {f'{kind}: {text}' if text else kind}; --debug shows where")
