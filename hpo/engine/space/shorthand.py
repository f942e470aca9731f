"""Short forms of a space's dimensions, for Python."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hpo.engine.space.peers import of_peer
from hpo.errors import SpaceError

# Kept as they are.
_KEPT = ("values", "choices", "when")


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


def written_out(branch: Any, where: str = "space") -> Any:
    """Return a dimension, or a tree of them, in the form of conf/space.

    A tuple is a range, of whole numbers if both ends are; a list of numbers has an order, any other has none.
    What other tools write is read, too: see `of_peer`.
    """
    branch = _of_python(branch)
    if (read := of_peer(branch, where)) is not None:
        return read
    if isinstance(branch, Log):
        return branch.to_dict()
    if isinstance(branch, tuple):
        if len(branch) != 2 or not all(map(_is_number, branch)):
            raise SpaceError(f"{where}: a tuple is a range, (low, high), given {branch!r}; give values as a list")
        return {"low": branch[0], "high": branch[1], "integer": all(isinstance(end, int) for end in branch)}
    if isinstance(branch, list) and not all(map(_is_number, branch)):
        return {"choices": branch}
    if isinstance(branch, Mapping):
        inner = {str(name): value for name, value in branch.items()}
        return {
            name: _kept(value) if name in _KEPT else written_out(value, f"{where}.{name}")
            for name, value in inner.items()
        }
    return branch


def _kept(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else list(value)


def _of_python(value: Any) -> Any:
    """Return NumPy's numbers and arrays, and a `range`, as Python's own."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, range):
        return list(value)
    if isinstance(value, list | tuple):
        return type(value)(map(_of_python, value))
    return value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
