"""An objective from Python: a function or its path. The space of an Optuna function `f(trial)` comes from its code."""

import ast
import contextlib
import inspect
import sys
import textwrap
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from hpo.commands.given.objects import Objects
from hpo.errors import ConfigError
from hpo.trials.space.peers import range_of
from hpo.workers.objective.given_data import GivenData
from hpo.workers.objective.path import MODULE, ObjectivePath, origin_of
from hpo.workers.objective.pickled_function import PickledFunction, parts_of
from hpo.workers.objective.resolution import (
    SUGGESTS,
    find_function,
    form_of,
    function_of,
    given_path,
    name_of,
    with_form,
)

# Inside these nodes a call may run several times, or not at all.
_BRANCHES = (
    *(ast.If, ast.For, ast.AsyncFor, ast.While, ast.Try, ast.Match, ast.IfExp, ast.BoolOp),
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef),
    *(ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp),
)
_HINT = (
    "give the space yourself (docs/how_to/define_a_space.md), or run the function in Optuna with our strategies: "
    "hpo.integrations.optuna.as_sampler (docs/how_to/use_strategies_elsewhere.md)"
)


@dataclass(frozen=True)
class GivenObjective:
    """The objective as a text for the configuration, and its function in pickled form if workers cannot import it."""

    text: str
    pickled: PickledFunction | None = None

    @classmethod
    def of(
        cls,
        objective: Callable[..., Any] | str,
        searched: Collection[str],
        objects: Objects,
        rows: GivenData | None = None,
    ) -> "GivenObjective":
        """Build the objective from a function or from the path of a function.

        A function is pickled into its study if it receives given data (`rows`), or values that have no JSON type
        (`objects`). `searched` has the top-level names of the space. Raise ConfigError if the function cannot be called
        or cannot be sent to workers.
        """
        if isinstance(objective, str):
            objects.refuse_all()
            if rows is None:
                return cls(with_form(objective, searched))
            objective = given_function(objective)
        name, form = name_of(objective), form_of(objective, searched)
        if form in ("task", "trial"):
            objects.refuse_all()
        module = getattr(objective, "__module__", None) or ""
        is_importable = _is_importable(objective, module)
        if rows is not None:
            _refuse_rows(objective, form, sys.modules[module] if is_importable else None, rows)
        called = objects.given_to(objective, is_importable, is_pickled=rows is not None)
        if is_importable and called is objective:
            path = str(ObjectivePath(module, objective.__name__, form))
            try:
                origin_of(path, str(Path.cwd()))
            except ConfigError:
                pass  # Workers import objectives only from packages that declare them.
            else:
                return cls(path)
        return cls(str(ObjectivePath(MODULE, name, form)), replace(PickledFunction.of(called, name), rows=rows))


def given_function(objective: Callable[..., Any] | str) -> Callable[..., Any]:
    """Return the given function, or the function at the given path. Raise ConfigError for any other value."""
    if isinstance(objective, str):
        return find_function(str(given_path(objective)), str(Path.cwd()))[0]
    if not callable(objective):
        raise ConfigError(f"objective: must be a function or 'package.module:function', given {objective!r}")
    return objective


def _refuse_rows(objective: Callable[..., Any], form: str, module: ModuleType | None, rows: GivenData) -> None:
    """Raise ConfigError if the given data conflict with the objective.

    There are three conflicts:

    - The function uses a variable that holds the data, so the function can read the test split.
    - An optional function of the objective also defines the data.
    - The function has no parameter `trial`, so the function cannot know which rows to train on.
    """
    name, own = name_of(objective), rows.parts()
    for used, value in parts_of(objective, name):
        if any(value is each for each in own):
            raise ConfigError(
                f"data: '{name}' uses the variable `{used}`, which includes the test split; use trial.data instead"
            )
    for optional_function in ("describe_data", "prepare_data") if rows.has_rows else ("describe_data",):
        if getattr(objective, optional_function, getattr(module, optional_function, None)) is not None:
            raise ConfigError(
                f"data: '{name}' has a function {optional_function}, which defines the data, too; remove that "
                f"function, or give no data"
            )
    if form in ("config", "task"):
        reads = "trial.data, trial.train and trial.validation" if rows.has_rows else "trial.train and trial.validation"
        raise ConfigError(
            f"data: cannot be read by {name}({form}); write `def {name}(config, trial)`, which can read {reads}"
        )


def _is_importable(objective: Callable[..., Any], module: str) -> bool:
    """Return whether a worker can import the same object by its module and name."""
    name = getattr(objective, "__name__", "")
    if module in ("", "__main__") or getattr(objective, "__qualname__", "") != name:
        return False
    return getattr(sys.modules.get(module), name, None) is objective


def suggested_space(objective: Callable[..., Any]) -> dict[str, Any]:
    """Return the space that the `trial.suggest_...` calls of a function define, in the form of conf/space.

    The calls are read from the source code; the function is not run.

    Raises:
        ConfigError: the whole space cannot be read from the source code.
    """
    function = function_of(objective)
    called = f"{getattr(function, '__name__', 'f')}(trial)"
    body = _body_of(function, called)
    nodes = [node for part in body for node in ast.walk(part)]
    num_uses = sum(isinstance(node, ast.Attribute) and _is_trial(node.value) for node in nodes)
    if sum(map(_is_trial, nodes)) > num_uses:
        raise ConfigError(f"{called}: passes 'trial' to other code, so its space cannot be read; {_HINT}")
    space, known = dict[str, Any](), _known(function, nodes)
    for call, is_sure in _calls(body, is_sure=True):
        code = ast.unparse(call)[:80]
        if not is_sure:
            raise ConfigError(f"{called}: {code} is inside a condition, loop or function; {_HINT}")
        name, dimension = _dimension(call, known, f"{called}: {code}")
        if space.setdefault(name, dimension) != dimension:
            raise ConfigError(
                f"{called}: suggests '{name}' twice with different ranges; give each hyperparameter its own name"
            )
    if not space:
        raise ConfigError(f"{called}: suggests no hyperparameter; {_HINT}")
    return space


def space_of(given: Any) -> Any:
    """Return the space that a function such as Hugging Face's `hp_space(trial)` suggests.

    If `given` is not a function, return it unchanged.

    Raises:
        ConfigError: the whole space cannot be read from the function's source code, or the function returns a dict
            whose keys are not the suggested names.
    """
    if not inspect.isroutine(given):
        return given
    try:
        space = suggested_space(given)
    except ConfigError as error:
        text = str(error).removesuffix(f"; {_HINT}")
        raise ConfigError(f"space: {text}; call each trial.suggest_... at the top level, or give a dict") from error
    returned = given(_Answers({name: of["choices"][0] if "choices" in of else of["low"] for name, of in space.items()}))
    if isinstance(returned, Mapping) and (others := sorted(map(str, returned.keys() ^ space.keys()))):
        raise ConfigError(
            f"space: {given.__name__}(trial) must return a dict with the suggested names as keys ({', '.join(space)}), "
            f"but returned {', '.join(map(str, returned))}; '{others[0]}' is only in one of the two lists"
        )
    return space


class _Answers:
    """A stand-in for a trial: `suggest_...(name)` returns the value given for this name."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def __getattr__(self, kind: str) -> Callable[..., Any]:
        return lambda name, *_, **__: self._values[name]


def _body_of(function: Any, called: str) -> list[ast.AST]:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError) as error:
        raise ConfigError(
            f"{called}: the function's source code cannot be read, so the search space is not known; {_HINT}"
        ) from error
    if function.__name__ != "<lambda>" and isinstance(tree.body[0], ast.FunctionDef | ast.AsyncFunctionDef):
        return list(tree.body[0].body)
    lambdas = [node for node in ast.walk(tree) if isinstance(node, ast.Lambda) and node.args.args]
    found = [node for node in lambdas if node.args.args[0].arg == "trial"]
    if len(found) != 1:
        raise ConfigError(f"{called}: its source line must have exactly one lambda with the parameter 'trial'; {_HINT}")
    return [found[0].body]


def _calls(nodes: list[ast.AST], is_sure: bool) -> Iterator[tuple[ast.Call, bool]]:
    """Yield each call `trial.suggest_...`, and whether it certainly runs exactly once."""
    for node in nodes:
        called = node.func if isinstance(node, ast.Call) else None
        if isinstance(called, ast.Attribute) and _is_trial(called.value) and called.attr.startswith("suggest_"):
            yield cast("ast.Call", node), is_sure
        yield from _calls(list(ast.iter_child_nodes(node)), is_sure and not isinstance(node, _BRANCHES))


def _is_trial(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id == "trial"


def _dimension(call: ast.Call, known: Mapping[str, Any], where: str) -> tuple[str, dict[str, Any]]:
    kind = getattr(call.func, "attr", "")
    if kind not in SUGGESTS:
        raise ConfigError(f"{where}: must be one of {', '.join(SUGGESTS)}, given {kind}; {_HINT}")
    places = ("name", "choices") if kind == "suggest_categorical" else ("name", "low", "high")
    if len(call.args) > len(places):
        raise ConfigError(
            f"{where}: must have at most {len(places)} arguments without a name ({', '.join(places)}), given "
            f"{len(call.args)}; give the others by name, such as step=..."
        )
    try:
        given = dict(zip(places, (_value(each, known) for each in call.args), strict=False))
        given |= {str(each.arg): _value(each.value, known) for each in call.keywords}
        name = given["name"]
        if kind == "suggest_categorical":
            return name, {"choices": list(given["choices"])}
        is_whole, log = kind == "suggest_int", bool(given.get("log")) or kind == "suggest_loguniform"
        ends = (given["low"], given["high"])
        return name, range_of(where, *ends, is_whole=is_whole, log=log, step=given.get("step"), starts_at_low=True)
    except (LookupError, TypeError, ValueError) as error:
        raise ConfigError(
            f"{where}: each argument must be a literal, or a variable that is defined outside the function and "
            f"holds a number, a text or a list; {_HINT}"
        ) from error


def _known(function: Any, nodes: Iterable[ast.AST]) -> Mapping[str, Any]:
    """Return the values of a function's variables by name; Ellipsis stands for the unknown value of a variable.

    The value of a variable is unknown if the function assigns it. `nodes` are the nodes of the function's code.
    """
    known = {**function.__globals__}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        # A variable without a value yet has an empty cell, and hides a global variable of its name.
        known.pop(name, None)
        with contextlib.suppress(ValueError):
            known[name] = cell.cell_contents
    declared = [name for node in nodes if isinstance(node, ast.Global | ast.Nonlocal) for name in node.names]
    # The local variables that an inner function uses are in co_cellvars only.
    return known | dict.fromkeys((*function.__code__.co_varnames, *function.__code__.co_cellvars, *declared), ...)


def _value(node: ast.AST, known: Mapping[str, Any]) -> Any:
    """Return a node's value: a scalar, None or a list of these; else raise LookupError, TypeError or ValueError."""
    if isinstance(node, ast.Name):
        value = known[node.id]
    elif isinstance(node, ast.List | ast.Tuple):
        return [_value(each, known) for each in node.elts]
    else:
        value = ast.literal_eval(node)
    values = value if isinstance(value, list | tuple) else [value]
    if not all(isinstance(each, str | int | float | None) for each in values):
        raise ValueError(node)
    return value
