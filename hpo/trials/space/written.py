"""Turns a space that a user wrote in short forms, in YAML or in Python, into its explicit form."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hpo.config.keys import at_path, is_number, path_of
from hpo.errors import SpaceError
from hpo.trials.space.peers import as_number, of_peer, without_sweeps
from hpo.trials.space.reader import is_leaf, parted, with_first

_log = logging.getLogger(__name__)

_SHOWN = 3


@dataclass(frozen=True)
class Log:
    """A range on a logarithmic scale; `points` is the number of values; None = all numbers of the range."""

    low: float
    high: float
    points: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the dimension in the form of conf/space."""
        points = {"points": self.points} if self.points is not None else {}
        return {"low": self.low, "high": self.high, "log": True, **points}


def log(low: float, high: float, points: int | None = None) -> Log:
    """Return a range on a logarithmic scale, such as `hpo.log(1e-5, 1e-2)`.

    If both ends are whole numbers, as in `hpo.log(16, 1024)`, the range has only whole numbers. If `points` is given,
    the values may be fractions. If `points` is None and the configuration's value of the hyperparameter is a fraction,
    such as 20.5, the range has all numbers between the ends.

    Args:
        low: the lower end of the range.
        high: the upper end of the range.
        points: the number of values, spaced evenly on the logarithmic scale; None = all numbers of the range.
    """
    return Log(low, high, points)


@dataclass(frozen=True)
class NamedChoices:
    """Choices without an order: the plain `values`, and the objects in `named`, by name.

    The study's files contain the names in place of the objects.
    """

    values: tuple[Any, ...]
    named: Mapping[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Return the dimension in the form of conf/space."""
        return {"choices": [*self.values, *self.named]}


def choices(*values: Any, **named: Any) -> NamedChoices:
    """Return values without an order, such as `hpo.choices(16, 64)`.

    Any objects can be given by name, such as `hpo.choices(relu=nn.ReLU)`. The study's files, the reports and MLflow
    contain only the names. Your function gets the objects, which workers must be able to unpickle.
    """
    if both := [name for name in named if name in values]:
        raise SpaceError(
            f"space: the name of a choice must not be the value of another choice, given '{both[0]}' as both; rename "
            f"the choice"
        )
    return NamedChoices(values, named)


def write_out(branch: Any, where: str = "space") -> Any:
    """Convert a dimension or a tree of dimensions from the forms of Python or other tools to the form of conf/space.

    A tuple is a range. A list of numbers becomes ordered values, and any other list becomes unordered choices.

    Raises:
        SpaceError: a tuple is not a range, or conf/space has no form for a dimension of another tool.
    """
    branch = _of_python(branch)
    if (read := of_peer(branch, where)) is not None:
        return read
    if isinstance(branch, Log | NamedChoices):
        return branch.to_dict()
    if isinstance(branch, tuple):
        if len(branch) != 2 or not all(map(is_number, branch)):
            raise SpaceError(f"{where}: a tuple must be a range (low, high), given {branch!r}; give values as a list")
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
    """Turn NumPy's numbers and arrays, and a `range`, into Python numbers and lists; keep other values."""
    if hasattr(value, "tolist") and not isinstance(value, type):
        return value.tolist()
    if isinstance(value, range):
        return list(value)
    if isinstance(value, list | tuple):
        return type(value)(map(_of_python, value))
    return value


def explicit_space(space: Mapping[str, Any], config: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Convert a space that was written in Python to the explicit form that `as_meant` returns."""
    if not isinstance(space, Mapping):
        raise SpaceError(f"space: must be a dict, given {space!r:.80}")
    space = without_sweeps(space, config or {})
    branches, rules = parted(space)
    written = {n: write_out(branches[n], f"space.{n}") if n in branches else rules[n] for n in space}
    for name in ("require", "first"):
        if name in branches and isinstance(written[name], list):
            # This is a hyperparameter called `require` or `first`; a plain list would be read as rules or points.
            written[name] = {"values": written[name]}
    plain = as_meant(written, config)
    return with_first(plain, rules["first"]) if "first" in rules else plain


def as_meant(space: Mapping[str, Any], config: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the space in its explicit form; a space that is already explicit is returned unchanged.

    - If both ends of a range are written as whole numbers (1, not 1.0), the range has only whole numbers, with or
      without `log`. But the range has all numbers if `integer` is false, or if its default is a fraction such as 0.5.
      If the range has no default, the value of its key in `config` counts as the default.
    - This rule does not apply to a range with `points` or `step`; for these, see `hpo.trials.space.reader`.
    - YAML reads 1e-5 as a text, not as a number. Such a text counts as a number at the ends of a range, and in a list
      that also contains numbers. A list that contains only such texts is refused.
    - A list that contains a list or a mapping becomes unordered choices.
    - A value that is listed twice counts once, and a warning is logged.
    - Dimensions in the form of W&B and NNI are accepted, too.
    """
    own = config or {}
    space = without_sweeps(space, own)
    branches, rules = parted(space)
    explicit = {str(n): _explicit(branches[n], (str(n),), own) if n in branches else rules[n] for n in space}
    return with_first(explicit, rules["first"]) if "first" in branches and "first" in rules else explicit


def default_as_meant(value: Any, dimension: Any) -> Any:
    """Convert a default to the type of its dimension; for example, the text 1e-5 becomes a number.

    `dimension` is in the form that `as_meant` returns.
    """
    fields = dimension if isinstance(dimension, Mapping) else {"values": dimension}
    return _leaf({**fields, "default": value}, "space")["default"]


def _explicit(branch: Any, path: tuple[str, ...], config: Mapping[str, Any]) -> Any:
    if path[-1] != path[-1].strip():
        raise SpaceError(f"space: the key {path[-1]!r} must not begin or end with blanks; write {path[-1].strip()!r}")
    where = f"space.{'.'.join(path)}"
    if isinstance(branch, Mapping):
        read = of_peer(branch, where)
        if read is not None or is_leaf(branch):
            value = at_path(config, found) if (found := path_of(config, ".".join(path))) else None
            return _leaf(branch if read is None else read, where, value)
        return {str(name): _explicit(inner, (*path, str(name)), config) for name, inner in branch.items()}
    if _is_list(branch):
        values = _listed(branch, where)
        return {"choices": values} if any(_is_list(v) or isinstance(v, Mapping) for v in values) else values
    return branch


def _leaf(written: Mapping[str, Any], where: str, value: Any = None) -> dict[str, Any]:
    """Return a dimension in its explicit form; `value` is the configuration's value for the dimension's key."""
    fields = dict(written)
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
    is_plain = all(fields.get(name) is None for name in ("integer", "points", "step"))
    default = as_number(fields.get("default", value))
    is_fraction = isinstance(default, float) and not default.is_integer()
    if is_plain and not is_fraction and all(is_number(end) and isinstance(end, int) for end in ends):
        fields["integer"] = True
    return fields


def _listed(written: Sequence[Any], where: str) -> list[Any]:
    """Return the values without repeats. If any value is a number, turn texts that represent numbers into numbers."""
    # Imported here, because it loads NumPy, which `hpo.log` and `hpo.choices` do not need.
    from hpo.trials.space.reader import identity

    texts = [value for value in written if as_number(value) is not value]
    if texts and len(texts) == len(written):
        raise SpaceError(
            f"{where}: all values are texts that look like numbers (given the text {texts[0]!r}); "
            f"if you mean numbers, remove quotes, and write 1.0e-5 instead of 1e-5, because YAML reads 1e-5 as a text; "
            f"if you mean texts, begin each text with a letter, such as v1 instead of 1"
        )
    values = list(map(as_number, written)) if any(map(is_number, written)) else list(written)
    once: dict[str, Any] = {}
    try:
        for value in values:
            once.setdefault(identity(value), value)
    except TypeError:
        return values  # One of the values cannot be written as JSON; the reader will refuse it.
    if len(once) < len(values):
        keys = list(map(identity, values))
        twice = [value for key, value in once.items() if keys.count(key) > 1]
        _log.warning("%s: values are listed twice and count once: %s", where, ", ".join(map(repr, twice[:_SHOWN])))
    return list(once.values())


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)
