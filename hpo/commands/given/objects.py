"""Keeps the Python values that JSON cannot represent, such as tuples, and gives these values to the objective.

The configuration has a JSON value in place of each original value.
"""

import contextlib
import copy
import dataclasses
import functools
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from hpo.commands.given.json_values import json_text, to_json
from hpo.config.keys import at_path, path_of, replaced
from hpo.errors import ConfigError, text_of
from hpo.trials.space.peers import of_peer, refuse_whole, without_sweeps
from hpo.trials.space.reader import is_leaf, parted
from hpo.trials.space.written import NamedChoices
from hpo.workers.objective.definitions import dumps
from hpo.workers.objective.objective import OPTIONAL_FUNCTIONS

_WITHOUT_CONFIG = ("predict", "attention", "output_sizes")
_CONSTANTS = ("CONTINUES", "CONTINUES_WITH", "REPORTS_AGAIN")

Known = Mapping[str, Mapping[str, Any]]
"""Original values: `{dotted key: {JSON text: original value}}`, such as `{"sizes": {"[1, 2]": (1, 2)}}`."""


@dataclass
class Objects:
    """The original Python values that JSON cannot represent.

    Both attributes have the form of `Known`.

    Attributes:
        choices: the original values of searched hyperparameters.
        constants: the original values of all other keys, one value per key.
    """

    choices: dict[str, dict[str, Any]] = field(default_factory=dict)
    constants: dict[str, dict[str, Any]] = field(default_factory=dict)

    def space(self, given: Mapping[str, Any], config: Mapping[str, Any]) -> dict[str, Any]:
        """Return the space with JSON values in place of original values; store the original values in `choices`."""
        with _ending("space"):
            refuse_whole(named("space", given))
            given = without_sweeps(given, config)
            branches, rules = parted(given)
        plain = {}
        for name, branch in branches.items():
            with _ending(f"space.{name}"):
                plain[name] = self._branch(branch, name)
        points = {name: self._point(rule, "") for name, rule in rules.items()}
        if "first" in branches and "first" in rules:
            return {**points, **plain, "first": {**plain["first"], "first": points["first"]}}
        return {name: {**plain, **points}[name] for name in given}

    def config(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the configuration with only JSON values; store the original values in `constants`."""
        plain = {}
        for name, value in named("config", given).items():
            with _ending(f"config.{name}"):
                plain[name] = self._constant(value, name)
        return plain

    def given_to(
        self, function: Callable[..., Any], is_importable: bool, is_pickled: bool = False
    ) -> Callable[..., Any]:
        """Return a function that puts the original Python values into a configuration and calls `function` with it.

        The original values are `choices` and `constants`. Optional functions of the objective that take a configuration
        are wrapped in the same way.

        If there are no original values, return `function` itself.

        If there are no original values, but `is_importable` and `is_pickled` are true, return a copy of `function`. The
        optional functions in the module of `function` are attributes of the copy, so that they are pickled, too.
        """
        has_objects = bool(self.choices or self.constants)
        if not has_objects and not (is_pickled and is_importable):
            return function
        module = sys.modules.get(function.__module__) if is_importable else None
        has = {
            name: getattr(function, name, getattr(module, name, None)) for name in (*OPTIONAL_FUNCTIONS, *_CONSTANTS)
        }
        if not has_objects:
            copied = functools.partial(function)
            vars(copied).update((name, value) for name, value in has.items() if value is not None)
            return copied
        given = functools.partial(call_with, function, self.choices, self.constants)
        for name, value in has.items():
            takes = callable(value) and name not in _WITHOUT_CONFIG
            if value is not None:
                setattr(given, name, functools.partial(call_with, value, *given.args[1:]) if takes else value)
        vars(given)["check"] = functools.partial(check_with, has["check"], *given.args[1:])
        return given

    def refuse_all(self) -> None:
        """Raise ConfigError if this object holds values that JSON cannot represent.

        Tuples are allowed, because the objective can use the JSON lists that replace the tuples.
        """
        known = {f"space.{key}": values for key, values in self.choices.items()}
        known |= {f"config.{key}": values for key, values in self.constants.items()}
        for where, values in known.items():
            if not all(isinstance(value, tuple) for value in values.values()):
                raise ConfigError(
                    f"{where}: must be a JSON value; to use other values, give the objective as a function f(config) "
                    f"or f(config, trial), not by its path"
                )

    def _branch(self, branch: Any, key: str) -> Any:
        branch = branch if (read := of_peer(branch, f"space.{key}")) is None else read
        if isinstance(branch, NamedChoices):
            for name, value in branch.named.items():
                self.choices.setdefault(key, {})[json_text(name)] = _sendable(value, f"space.{key}: {name}")
            return {"choices": [*self._values(branch.values, key), *branch.named]}
        if isinstance(branch, list):
            return self._values(branch, key)
        if not isinstance(branch, Mapping):
            return branch
        if not is_leaf(branch):
            inners = named(f"space.{key}", branch).items()
            return {name: self._branch(inner, f"{key}.{name}") for name, inner in inners}
        fields = dict(branch)
        for name in ("values", "choices"):
            if isinstance(fields.get(name), list | tuple):
                fields[name] = self._values(fields[name], key)
        if "default" in fields:
            fields["default"] = self._stand_in(fields["default"], key, "space")
        if isinstance(fields.get("when"), Mapping):
            fields["when"] = self._point(fields["when"], "")
        return fields

    def _values(self, values: Iterable[Any], key: str) -> list[Any]:
        plains = []
        for value in values:
            plain, is_plain = to_json(value, f"space.{key}")
            if not is_plain:
                self.choices.setdefault(key, {})[json_text(plain)] = value
            plains.append(plain)
        return plains

    def _point(self, given: Any, key: str) -> Any:
        """Convert points, rules or conditions to JSON values."""
        if isinstance(given, Mapping):
            return {name: self._point(value, f"{key}.{name}".removeprefix(".")) for name, value in given.items()}
        if isinstance(given, list | tuple) and all(known is not given for known in self.choices.get(key, {}).values()):
            return [self._point(value, key) for value in given]
        return self._stand_in(given, key, "space")

    def _constant(self, value: Any, key: str) -> Any:
        if isinstance(value, Mapping) and all(isinstance(name, str) for name in value):
            return {name: self._constant(inner, f"{key}.{name}") for name, inner in value.items()}
        if key in self.choices:
            return self._stand_in(value, key, "config")
        plain, is_plain = to_json(value, f"config.{key}")
        if not is_plain:
            self.constants[key] = {json_text(plain): value}
        return plain

    def _stand_in(self, value: Any, key: str, where: str) -> Any:
        """Return the JSON value that replaces a Python value; convert the value if `choices` has no entry for it."""
        name = next((text for text, known in self.choices.get(key, {}).items() if known is value), None)
        return to_json(value, f"{where}.{key}")[0] if name is None else json.loads(name)


def call_with(
    function: Callable[..., Any], choices: Known, constants: Known, config: Mapping[str, Any], *others: Any
) -> Any:
    """Put the original Python values into a configuration, and call `function` with it.

    `choices` and `constants` have the form `{dotted key: {JSON text: original value}}`. The original value replaces the
    value of the key in `config` that has this JSON text. A searched value that is not in `choices` stays a JSON value.
    If a user has changed the JSON value of a constant, `_rebuilt` makes a new Python value from the changed JSON value,
    or raises ConfigError.

    Do not move this function, because pickled functions refer to it by name.
    """
    found = {}
    for key, known in (*choices.items(), *constants.items()):
        path = path_of(config, key)
        if path is None:
            continue
        value = at_path(config, path)
        if (text := json_text(value)) in known:
            found[key] = known[text]
            with contextlib.suppress(TypeError):  # A module cannot be copied.
                # Copy the value, because a training may change it in place.
                found[key] = copy.deepcopy(known[text])
        elif key in constants:
            ((before, given),) = known.items()
            found[key] = _rebuilt(key, given, json.loads(before), value)
    return function(replaced(config, found), *others)


def as_given(function: Callable[..., Any], tree: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration or a point in which the original tuples replace their JSON lists.

    Dicts with numbers as keys are restored in the same way. Other values, such as a class, stay in their JSON form,
    although `call_with` gives the original values to the pickled `function`.
    """
    found: dict[str, Any] = {}
    if not isinstance(function, functools.partial) or function.func is not call_with:
        return {**tree}
    _, choices, constants = function.args
    for key, known in (*choices.items(), *constants.items()):
        text = json_text(at_path(tree, path)) if (path := path_of(tree, key)) else ""
        if text in known and _is_written_so(known[text], text):
            found[key] = copy.deepcopy(known[text])
    return replaced(tree, found)


def _is_written_so(value: Any, text: str) -> bool:
    """Return whether the JSON form of the value equals the JSON value in `text`."""
    try:
        return bool(json.loads(json.dumps(value)) == json.loads(text))
    except TypeError:
        return False


def check_with(check: Callable[..., Any] | None, choices: Known, constants: Known, config: Mapping[str, Any]) -> None:
    """Put the original Python values into a configuration, and call `check` (None = no check) with it.

    Raise ConfigError if a user has changed the JSON value of a constant, and `_rebuilt` cannot make a Python value from
    the changed JSON value.

    Do not move this function, because pickled functions refer to it by name.
    """
    call_with(check or (lambda _: None), choices, constants, config)


@contextlib.contextmanager
def _ending(where: str) -> Iterator[None]:
    """Convert a RecursionError inside the block to a ConfigError, which says that the value contains itself."""
    try:
        yield
    except RecursionError:
        raise ConfigError(f"{where}: contains itself, and cannot be written as JSON; remove the cycle") from None


def named(where: str, given: Any) -> Mapping[str, Any]:
    """Return `given` if it is a mapping with strings as keys; else raise ConfigError."""
    if not isinstance(given, Mapping):
        hint = "; use vars(...)" if hasattr(given, "__dict__") else ""
        hint = "; use dataclasses.asdict(...)" if dataclasses.is_dataclass(given) else hint
        raise ConfigError(f"{where}: must be a dict, given a {type(given).__name__}{hint}")
    if names := [name for name in given if not isinstance(name, str)]:
        raise ConfigError(f"{where}: must have strings as keys, given {names[0]!r}; write {str(names[0])!r}")
    return given


def _rebuilt(key: str, given: Any, before: Any, now: Any) -> Any:
    """Return the new Python value of a constant after a user has changed its JSON value from `before` to `now`.

    `given` is the original Python value. If `given` has a plain JSON form, return `now`. If `given` is a dataclass and
    the user changed no field names, return a copy with the changed values. If `given` is a tuple, all its items have a
    plain JSON form, and `now` is a list, return a tuple. Otherwise, raise ConfigError.
    """
    is_whole = dataclasses.is_dataclass(given) and isinstance(now, Mapping) and now.keys() == before.keys()
    if not is_whole:
        if to_json(given, key)[1]:
            return now
        if type(given) is tuple and isinstance(now, list) and all(to_json(each, key)[1] for each in given):
            return tuple(now)
        raise ConfigError(
            f"{key}: must be {before!r}, given {now!r}; the original value is a {type(given).__name__}, which JSON "
            f"cannot represent; to change it, start a new search from Python"
        )
    changed = {name: value for name, value in now.items() if json_text(value) != json_text(before[name])}
    inner = {name: _rebuilt(f"{key}.{name}", getattr(given, name), before[name], changed[name]) for name in changed}
    return dataclasses.replace(given, **inner)


def _sendable(value: Any, where: str) -> Any:
    try:
        dumps(value)
    except Exception as error:  # a __reduce__ of any library may raise anything
        raise ConfigError(
            f"{where}: a {type(value).__name__} cannot be sent to workers: {text_of(error)}; create it in the objective"
        ) from error
    return value
