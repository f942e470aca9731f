"""Short forms of a space's dimensions, for Python."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hpo.engine.space.branches import is_leaf
from hpo.engine.space.peers import of_peer
from hpo.errors import SpaceError


@dataclass(frozen=True)
class Log:
    """A range on a logarithmic scale; `points` of it, or all of it."""

    low: float
    high: float
    points: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return it as conf/space has it."""
        kept = {} if self.points is None else {"points": self.points}
        if isinstance(self.low, int) and isinstance(self.high, int) and self.points is None:
            kept["integer"] = True
        return {"low": self.low, "high": self.high, "log": True, **kept}


def log(low: float, high: float, points: int | None = None) -> Log:
    """Return a range on a logarithmic scale, such as `hpo.log(1e-5, 1e-2)`; `points`: so many values of it.

    It is one of whole numbers if both ends are and no points are asked for: `hpo.log(16, 1024)`.
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


def written_out(branch: Any, where: str = "space") -> Any:
    """Return a dimension, or a tree of them, in the form of conf/space.

    A tuple is a range, of whole numbers if both ends are; a list of numbers has an order, any other has none.
    What other tools write is read, too: see `of_peer`.
    """
    branch = _of_python(branch)
    if (read := of_peer(branch, where)) is not None:
        return read
    if isinstance(branch, Log | NamedChoices):
        return branch.to_dict()
    if isinstance(branch, tuple):
        if len(branch) != 2 or not all(map(_is_number, branch)):
            raise SpaceError(f"{where}: a tuple is a range, (low, high), given {branch!r}; give values as a list")
        return {"low": branch[0], "high": branch[1], "integer": all(isinstance(end, int) for end in branch)}
    if isinstance(branch, list) and not all(map(_is_number, branch)):
        return {"choices": branch}
    if isinstance(branch, Mapping):
        inner = {str(name): _of_python(value) for name, value in branch.items()}
        if not is_leaf(inner):
            return {name: written_out(value, f"{where}.{name}") for name, value in inner.items()}
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


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
