"""Grids as of scikit-learn's searches, as a space: objects stand in it by name, and which of several is a choice."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hpo.engine.space.space import Point
from hpo.engine.space.written import write_out
from hpo.errors import ConfigError

# Of several grids, the dimension that says which; all others have the grid's number before their name.
_WHICH = "grid"


@dataclass(frozen=True)
class Grids:
    """One grid, or several of which each point belongs to one.

    Attributes:
        space: in the form of conf/space.
        objects: what stands there by name, by the key of its dimension: estimators, tuples, arrays.
        are_several: whether a list of grids was given.
    """

    space: Mapping[str, Any]
    objects: Mapping[str, Mapping[Any, Any]]
    are_several: bool

    @classmethod
    def of(cls, given: Any) -> "Grids":
        """Read a grid, or a list of them; ConfigError for what is neither."""
        objects: dict[str, dict[Any, Any]] = {}
        if isinstance(given, Mapping):
            return cls(
                {key: _dimension(value, objects.setdefault(key, {})) for key, value in given.items()}, objects, False
            )
        if not isinstance(given, list | tuple) or not given or not all(isinstance(grid, Mapping) for grid in given):
            raise ConfigError(f"space: must be a dict of parameters, or a list of such, given {given!r}")
        space: dict[str, Any] = {_WHICH: {"choices": list(range(len(given)))}}
        for number, grid in enumerate(given):
            for name, value in grid.items():
                key = f"{number}.{name}"
                read = _dimension(value, objects.setdefault(key, {}))
                fields = read if isinstance(read, Mapping) else {"values": read}
                conditions = {f"{number}.{other}": allowed for other, allowed in fields.get("when", {}).items()}
                space[key] = {**fields, "when": {_WHICH: [number], **conditions}}
        return cls(space, objects, True)

    def parameters(self, point: Point) -> dict[str, Any]:
        """Return a point as parameters of the estimator: of its grid alone, with the objects themselves."""
        own = {key: self.objects.get(key, {}).get(value, value) for key, value in point.items()}
        if self.are_several:
            del own[_WHICH]
        return {key.partition(".")[2] if self.are_several else key: value for key, value in own.items()}


def _dimension(given: Any, objects: dict[Any, Any]) -> Any:
    """Return a dimension in the form of conf/space, and put its objects under their names."""
    given = given.tolist() if hasattr(given, "tolist") else given
    if isinstance(given, Mapping):
        fields = {name: _named(v, objects) if name in ("values", "choices") else v for name, v in given.items()}
        return write_out(fields)
    return write_out(_named(given, objects) if isinstance(given, list) else given)


def _named(values: Any, objects: dict[Any, Any]) -> list[Any]:
    named = []
    for place, value in enumerate(values):
        plain = value.item() if isinstance(value, np.generic) else value
        if not isinstance(plain, int | float | str | None) or (isinstance(plain, float) and not math.isfinite(plain)):
            # Its place in the list tells it from others that look the same.
            plain = f"{place}: {value!r}"
            objects[plain] = value
        named.append(plain)
    return named
