"""A space as somebody has just written it, also in Python, turned into the explicit form that is read and frozen."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hpo.config.keys import at_path, path_of
from hpo.errors import SpaceError
from hpo.trials.space.peers import as_number, is_number, of_peer, without_sweeps
from hpo.trials.space.reader import is_leaf, parted, with_first

_log = logging.getLogger(__name__)

_SHOWN = 3


@dataclass(frozen=True)
class Log:
    """A range on a logarithmic scale; `points` of it, or all of it."""

    low: float
    high: float
    points: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return it as conf/space has it."""
        kept = {"points": self.points} if self.points is not None else {}
        return {"low": self.low, "high": self.high, "log": True, **kept}


def log(low: float, high: float, points: int | None = None) -> Log:
    """Return a range on a logarithmic scale, such as `hpo.log(1e-5, 1e-2)`; `points`: so many values of it.

    It is one of whole numbers if both ends are, no points are asked for, and the configuration's value is no fraction:
    `hpo.log(16, 1024)`.
    """
    return Log(low, high, points)


@dataclass(frozen=True)
class NamedChoices:
    """Values without an order; `named` ones are objects that are written down by their names."""

    values: tuple[Any, ...]
    named: Mapping[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Return it as conf/space has it."""
        return {"choices": [*self.values, *self.named]}


def choices(*values: Any, **named: Any) -> NamedChoices:
    """Return values without an order: `hpo.choices(16, 64)`, or any objects by names, `hpo.choices(relu=nn.ReLU)`.

    Files, reports and MLflow hold the names; the function gets the objects, which workers must be able to unpickle.
    """
    if both := [name for name in named if name in values]:
        raise SpaceError(f"space: choices has '{both[0]}' as a value and as a name; give one of them another name")
    return NamedChoices(values, named)


def write_out(branch: Any, where: str = "space") -> Any:
    """Return a dimension, or a tree of them, in the form of conf/space; those of other tools, too.

    A tuple is a range; a list of numbers has an order, any other has none.
    """
    branch = _of_python(branch)
    if (read := of_peer(branch, where)) is not None:
        return read
    if isinstance(branch, Log | NamedChoices):
        return branch.to_dict()
    if isinstance(branch, tuple):
        if len(branch) != 2 or not all(map(is_number, branch)):
            raise SpaceError(f"{where}: a tuple is a range, (low, high), given {branch!r}; give values as a list")
        return {"low": branch[0], "high": branch[1]}
    if isinstance(branch, list) and not all(map(is_number, branch)):
        return {"choices": branch}
    if isinstance(branch, Mapping):
        inner = {str(name): _of_python(value) for name, value in branch.items()}
        if not is_leaf(inner):
            return {name: write_out(value, f"{where}.{name}") for name, value in inner.items()}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in inner.items()}
    return branch


def _of_python(value: Any) -> Any:
    """Return NumPy's numbers and arrays, and a `range`, as Python's own."""
    if hasattr(value, "tolist") and not isinstance(value, type):
        return value.tolist()
    if isinstance(value, range):
        return list(value)
    if isinstance(value, list | tuple):
        return type(value)(map(_of_python, value))
    return value


def as_meant(space: Mapping[str, Any], config: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the space in its explicit form; one that is explicit already is returned as it is.

    A range whose ends are both written as whole numbers (1, not 1.0) is one of whole numbers, with `log` or without;
    `integer: false`, or a default or value of the `config` such as 0.5, makes it one of fractions. With `points` the
    values are fractions, with `step` see the reader. A text such as 1e-5, which YAML reads as one, is a number at the
    ends of a range, and in a list beside a number; a list of such texts alone is refused. A bare list of lists or
    mappings has no order. A value that is listed twice is kept once, with a warning. What W&B and NNI write is read,
    too.
    """
    own = config or {}
    space = without_sweeps(space, own)
    branches, rules = parted(space)
    plain = {str(n): _meant(branches[n], (str(n),), own) if n in branches else rules[n] for n in space}
    return with_first(plain, rules["first"]) if "first" in branches and "first" in rules else plain


def default_as_meant(value: Any, dimension: Any) -> Any:
    """Return what is tried first of an explicit dimension: a text such as 1e-5 as the number, by the same rules."""
    fields = dimension if isinstance(dimension, Mapping) else {"values": dimension}
    return _leaf({**fields, "default": value}, "space")["default"]


def _meant(branch: Any, path: tuple[str, ...], config: Mapping[str, Any]) -> Any:
    if path[-1] != path[-1].strip():
        raise SpaceError(f"space: the key {path[-1]!r} has blanks around it; write {path[-1].strip()!r}")
    where = f"space.{'.'.join(path)}"
    if isinstance(branch, Mapping):
        read = of_peer(branch, where)
        if read is not None or is_leaf(branch):
            value = at_path(config, found) if (found := path_of(config, ".".join(path))) else None
            return _leaf(branch if read is None else read, where, value)
        return {str(name): _meant(inner, (*path, str(name)), config) for name, inner in branch.items()}
    if _is_list(branch):
        values = _listed(branch, where)
        return {"choices": values} if any(_is_list(v) or isinstance(v, Mapping) for v in values) else values
    return branch


def _leaf(given: Mapping[str, Any], where: str, value: Any = None) -> dict[str, Any]:
    """Return a dimension in its explicit form; `value` is what the configuration has in its place."""
    fields = dict(given)
    for kind in ("values", "choices"):
        if _is_list(fields.get(kind)):
            fields[kind] = _listed(fields[kind], f"{where}.{kind}")
    listed = fields.get("values") or fields.get("choices") or ()
    is_of_texts = _is_list(listed) and listed and not any(map(is_number, listed))
    for name in ("low", "high", "step", "default"):
        is_text = name == "default" and _is_list(listed) and (is_of_texts or fields.get(name) in listed)
        if name in fields and not is_text:
            fields[name] = as_number(fields[name])
    ends = (fields.get("low"), fields.get("high"))
    unsaid = all(fields.get(name) is None for name in ("integer", "points", "step"))
    default = as_number(fields.get("default", value))
    is_fraction = isinstance(default, float) and not default.is_integer()
    if unsaid and not is_fraction and all(is_number(end) and isinstance(end, int) for end in ends):
        fields["integer"] = True
    return fields


def _listed(given: Sequence[Any], where: str) -> list[Any]:
    """Return the values of a list, each once, with numbers where some were read as texts."""
    # Not at the top: `hpo.log` and `hpo.choices` need no NumPy.
    from hpo.trials.space.reader import identity

    texts = [value for value in given if as_number(value) is not value]
    if texts and len(texts) == len(given):
        raise SpaceError(
            f"{where}: holds only texts that look like numbers, such as {texts[0]!r}; write numbers without quotes and "
            f"with a point (1.0e-5: YAML takes 1e-5 for a text), or give texts another form, such as v1, v2"
        )
    values = list(map(as_number, given)) if any(map(is_number, given)) else list(given)
    once: dict[str, Any] = {}
    try:
        for value in values:
            once.setdefault(identity(value), value)
    except TypeError:
        return values  # Holds what is no JSON value; the reader names it.
    if len(once) < len(values):
        keys = list(map(identity, values))
        twice = [value for key, value in once.items() if keys.count(key) > 1]
        _log.warning("%s: listed twice, and kept once: %s", where, ", ".join(map(repr, twice[:_SHOWN])))
    return list(once.values())


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)
