"""Imports an objective and its optional functions by the objective's path. Import errors get one-line messages."""

import importlib
import inspect
import sys
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from hpo.config.secrets import Secrets, excerpt
from hpo.config.sections import objective_text
from hpo.errors import ConfigError, is_interruption, text_of
from hpo.workers.objective.objective import GUARDED, LONGEST_REASON, OPTIONAL_FUNCTIONS, Objective, guard
from hpo.workers.objective.path import Form, ObjectivePath, Origin, hide_folder, origin_of, put_first, refuse_another
from hpo.workers.objective.pickled_function import PickledFunction
from hpo.workers.objective.plain_function import as_run_fold
from hpo.workers.objective.process_state import Isolation


def resolve(
    path: str, import_from: str | None = None, secrets: Secrets | None = None, pickled: PickledFunction | None = None
) -> Objective:
    """Return the objective at a path, with its optional functions.

    Args:
        path: see `ObjectivePath`.
        import_from: the folder to import from, in addition to installed packages.
        secrets: values of redacted secrets. Missing values come from environment variables.
        pickled: the pickled function, if the path names one; None = the path names a module.

    Raises:
        ConfigError: the function does not exist, cannot be imported or loaded, is an asynchronous generator, or has an
            origin that `origin_of` does not allow.
    """
    values, given = secrets or {}, ObjectivePath.of(path)
    function, module = find_function(path, import_from, values, pickled)

    def optional_function(name: str, default: Any = None) -> Any:
        return getattr(function, name, getattr(module, name, default))

    optional_functions = {name: optional_function(name) for name in OPTIONAL_FUNCTIONS}
    for name in GUARDED:
        if optional_functions[name] is not None:
            optional_functions[name] = guard(optional_functions[name], f"{given.owner}.{name}", values)
    rows = None if pickled is None else pickled.rows
    optional_functions |= {} if rows is None else rows.optional_functions()
    run_fold, run_test = function, optional_functions.pop("run_test")
    if given.form != "task":
        run_fold = as_run_fold(function, given.form, rows)
        run_test = None if run_test is None else as_run_fold(run_test, "config, trial", rows)
    code_files = optional_function("code_files")
    is_ours = module is not None and origin_of(path, import_from) == "toolkit"
    return Objective(
        path,
        run_fold,
        run_test=run_test,
        **optional_functions,
        continues=bool(optional_function("CONTINUES", False)),
        reports_again=bool(optional_function("REPORTS_AGAIN", False)),
        continues_with=tuple(optional_function("CONTINUES_WITH", ())),
        code_keys=tuple(optional_function("CODE_KEYS", ())),
        code_files=None if code_files is None else guard(code_files, f"{given.owner}.code_files", values),
        pickled=pickled,
        revision=getattr(module, "REVISION", None) if is_ours else None,
    )


def with_form(text: str, searched: Collection[str] = ()) -> str:
    """Return an objective's path, followed by the function's parameters, such as `(config)`; see `form_of`.

    For a function with the parameter `task`, return the path without parameters. Return `text` unchanged for an
    objective of the toolkit, for a pickled function, and for a text that already has parameters.

    Args:
        text: the path as typed by the user, with or without the parameters.
        searched: the names at the top level of the space.

    Raises:
        ConfigError: the path is not valid, or the function cannot be found or called; see `resolve` and `form_of`.
    """
    given, here = given_path(text), str(Path.cwd())
    if text.endswith(")") or given.is_pickled or origin_of(text, here) == "toolkit":
        return text
    return str(replace(given, form=form_of(find_function(text, here)[0], searched)))


def given_path(text: str) -> ObjectivePath:
    """Parse the path that a user typed for an objective. Raise ConfigError if the path is not valid."""
    try:
        return ObjectivePath.of(objective_text(text))
    except ValueError as error:
        raise ConfigError(f"objective: {error}, given {text!r}") from error


def find_function(
    path: str, import_from: str | None, secrets: Secrets | None = None, pickled: PickledFunction | None = None
) -> tuple[Callable[..., Any], ModuleType | None]:
    """Return the function at a path, and its module (None if pickled). See `resolve` for arguments and errors."""
    given, module = ObjectivePath.of(path), None
    if not given.is_pickled:
        module = import_named("objective", path, given.module, import_from, secrets)
        function = getattr(module, given.function, None)
        if not callable(function):
            raise ConfigError(f"objective: module '{given.module}' has no function '{given.function}'")
    elif pickled is None:
        raise ConfigError(
            f"objective: '{given.function}' was given from Python and is stored only in its study's folder; start a "
            f"study from Python, or put the function into a module and give package.module:function"
        )
    else:
        # The function may import modules from the working directory.
        if import_from:
            put_first(import_from)
        function = pickled.load()
    if inspect.isasyncgenfunction(function):
        raise ConfigError(
            f"objective: '{given.function}' must not be an asynchronous generator; write `async def "
            f"{given.function}(config, trial)`, with trial.report(...) in place of `yield`"
        )
    return function, module


def import_named(
    what: str, path: str, name: str, import_from: str | None, secrets: Secrets | None = None
) -> ModuleType:
    """Import the module that contains an objective or a strategy.

    Args:
        what: the configuration key that has the path.
        path: the path of the objective or strategy.
        name: the name of the module.
        import_from: the folder to import from, in addition to installed packages.
        secrets: values to redact in error messages.

    Raises:
        ConfigError: the import failed with any exception, or `origin_of` does not allow the module.
    """
    origin, secrets = origin_of(path, import_from, what), secrets or {}
    try:
        with Isolation(secrets).enter():
            module = _imported(what, name, origin, import_from)
    except BaseException as error:
        # The user's own module may raise anything, or exit like a script.
        if isinstance(error, ConfigError) or is_interruption(error):
            raise
        is_usual = isinstance(error, ImportError | SyntaxError | ValueError)
        fault = f"cannot import '{name}'" if is_usual else f"importing '{name}' raised {type(error).__name__}"
        text = excerpt(text_of(error), secrets, LONGEST_REASON)
        hint = "in a shell, --debug shows the traceback"
        if isinstance(error, SystemExit):
            hint = "put code that runs only in a script, such as parse_args(), below `if __name__ == '__main__':`"
        raise ConfigError(f"{what}: {fault}: {text}; {hint}") from error
    refuse_another(module, origin, import_from, what)
    return module


def _imported(what: str, name: str, origin: Origin, import_from: str | None) -> ModuleType:
    """Import a module. Search the working directory only if it is the module's origin."""
    top = name.partition(".")[0]
    if top in sys.modules:
        refuse_another(sys.modules[top], origin, import_from, what)
    if origin != "working directory":
        with hide_folder(import_from or str(Path.cwd())):
            module = importlib.import_module(name if origin == "toolkit" else top)
        if origin == "toolkit":
            # Do not add the working directory: later imports of the toolkit must not search it either.
            return module
    if import_from:
        put_first(import_from)
    return importlib.import_module(name)


SUGGESTS = ("suggest_float", "suggest_int", "suggest_categorical", "suggest_uniform", "suggest_loguniform")


def form_of(function: Callable[..., Any], searched: Collection[str] | None) -> Form:
    """Return which parameters a function takes: f(task), f(config), f(config, trial), or f(trial) as in Optuna.

    Args:
        function: the function.
        searched: the names at the top level of the space; None = no space is given. If a space is given, f(trial)
            counts as a function for Optuna only if it calls a `suggest_...` method.

    Raises:
        ConfigError: the function cannot be called in any of these ways.
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        # A function written in C may have no signature.
        return "config"
    parameters = signature.parameters.values()
    places = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    needed = [p.name for p in places if p.default is p.empty]
    named = [p for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
    has_any = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    given = f"{name_of(function)}{signature}"
    must = f"objective: must be f(config), f(config, trial), f(trial) or f(task), given {given}"
    if named or len(needed) > 2 or (len(needed) == 2 and "task" in needed) or (not places and not has_any):
        raise ConfigError(must)
    if needed == ["task"]:
        return "task"
    suggests = len(needed) == 1 and _suggests(getattr(function_of(function), "__code__", None))
    if needed == ["trial"] and (suggests or searched is None):
        return "trial"
    if suggests and searched is None:
        raise ConfigError(
            f"objective: a function that calls suggest_... must have the parameter 'trial', given '{needed[0]}'; "
            f"rename the parameter"
        )
    if taken := [each for each in needed if each in (searched or ()) and each not in ("config", "trial")]:
        raise ConfigError(f"{must}; read searched values from config, such as config['{taken[0]}']")
    takes_trial = len(needed) == 2 or (len(places) > 1 and places[1].name in ("trial", "report"))
    return "config, trial" if takes_trial else "config"


def name_of(function: Callable[..., Any]) -> str:
    """Return the name of a function, or of a partial's function; for any other callable, the name of its class.

    If this name is not an identifier, as for a lambda, return `objective`.
    """
    name = getattr(getattr(function, "func", function), "__name__", type(function).__name__)
    return name if name.isidentifier() else "objective"


def function_of(objective: Any) -> Any:
    """Return the Python function that runs when a partial, a method or another callable object is called."""
    inner = getattr(objective, "func", objective)
    return inner if inspect.isfunction(inner) else getattr(inner, "__func__", type(inner).__call__)


def _suggests(code: CodeType | None) -> bool:
    """Return whether a function, or a function inside it, calls a `suggest_...` method."""
    if code is None:
        return False
    inner = (each for each in code.co_consts if isinstance(each, CodeType))
    return any(name in SUGGESTS for name in code.co_names) or any(map(_suggests, inner))
