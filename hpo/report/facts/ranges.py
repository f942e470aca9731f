"""How dimensions and values are written for people."""

from collections.abc import Mapping
from typing import Any

from hpo.engine.space.structured import as_value


def describe_range(dimension: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return the key of a dimension of report.json, its kind, and its range with condition and default."""
    if dimension["kind"] == "range":
        scale = " (log)" if dimension["log"] else ""
        number = "whole numbers " if dimension["integer"] else ""
        text = f"{number}{value_text(dimension['low'])} to {value_text(dimension['high'])}{scale}"
    else:
        text = ", ".join(value_text(value) for value in dimension["values"])
        text += " (log)" if dimension.get("scale") == "log" else ""
    conditions = dimension.get("when", {}).items()
    when = "".join(f"; when {key} is {' or '.join(map(value_text, values))}" for key, values in conditions)
    # Where the configuration has None there is no default, unless that is one of the values.
    given = dimension.get("default") is not None or ("default" in dimension and None in dimension.get("values", ()))
    default = f"; default {value_text(dimension['default'])}" if given else ""
    return dimension["key"], dimension["kind"], text + when + default


def value_text(value: Any) -> str:
    """Return a value as text, a float with six digits, a list or mapping as JSON."""
    return f"{value:g}" if isinstance(value, float) else str(as_value(value))
