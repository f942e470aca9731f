"""Short forms of a space's dimensions, for Python."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hpo.errors import SpaceError

# Kept as they are.
_LISTS = ("values", "choices")


@dataclass(frozen=True)
class Log:
    """A range on a logarithmic scale; `points` of it, or all of it."""

    low: float
    high: float
    points: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return it as conf/space has it."""
        points = {} if self.points is None else {"points": self.points}
        return {"low": self.low, "high": self.high, "log": True, **points}


def log(low: float, high: float, points: int | None = None) -> Log:
    """Return a range on a logarithmic scale, such as `hpo.log(1e-5, 1e-2)`; `points`: so many values of it."""
    return Log(low, high, points)


def written_out(branch: Any) -> Any:
    """Return a dimension, or a tree of them, in the form of conf/space.

    A tuple is a range, of whole numbers if both ends are; a list of numbers has an order, any other has none.
    """
    if hasattr(branch, "tolist"):
        # Of NumPy.
        branch = branch.tolist()
    if isinstance(branch, Log):
        return branch.to_dict()
    if isinstance(branch, tuple):
        if len(branch) != 2 or not all(map(_is_number, branch)):
            raise SpaceError(f"space: a tuple is a range, (low, high), given {branch!r}; give values as a list")
        return {"low": branch[0], "high": branch[1], "integer": all(isinstance(end, int) for end in branch)}
    if isinstance(branch, list) and not all(map(_is_number, branch)):
        return {"choices": branch}
    if isinstance(branch, Mapping):
        inner = {str(name): value for name, value in branch.items()}
        return {name: list(value) if name in _LISTS else written_out(value) for name, value in inner.items()}
    return branch


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
