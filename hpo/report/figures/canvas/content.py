"""A figure as JSON data for a page, with numbers rounded to visible precision."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

_DIGITS = 5  # significant digits of a number in a figure; more are not visible and double the page's size


def figure_content(figure: Any) -> dict[str, Any]:
    """Return the data and the layout of a plotly figure."""
    return {
        "data": [_plain(trace.to_plotly_json()) for trace in figure.data],
        "layout": _plain(figure.layout.to_plotly_json()),
    }


def _plain(value: Any) -> Any:
    """Return part of a figure as JSON types, with numbers rounded to visible precision."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list | tuple):
        digits = _digits([item for item in value if type(item) is float and math.isfinite(item)])
        return [_rounded(item, digits) if type(item) is float else _plain(item) for item in value]
    if isinstance(value, float):
        # A single number may be a range's end or a size, and rounding it saves nothing.
        return value if math.isfinite(value) else None
    if isinstance(value, int) and not isinstance(value, bool):
        return int(value)
    return value


def _digits(values: Sequence[float]) -> int:
    """Return how many significant digits distinguish the values: more if they differ little."""
    if not values:
        return _DIGITS
    size, span = max(map(abs, values)), max(values) - min(values)
    return min(17, _DIGITS + max(0, math.ceil(math.log10(size / span)))) if span else 17


def _rounded(value: float, digits: int) -> float | None:
    return float(f"{value:.{digits}g}") if math.isfinite(value) else None
