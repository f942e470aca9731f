"""A dimension narrowed to a window of neighbouring values."""

from dataclasses import replace

from hpo.engine.space.dimensions import Choices, Dimension, NoDefault, Range, Value

Centre = Value | type[NoDefault]


def window(dimension: Dimension, centre: Centre, share: float, length: int | None = None, least: int = 1) -> Dimension:
    """Return the dimension narrowed to a window, clipped to stay inside its range.

    Args:
        dimension: choices have no order and so no window: they are returned unchanged.
        centre: the value in the middle; `NoDefault` = the middle of the range (the lower one of an even number).
        share: length of the window, as a share of the range (of its logarithm with `log`).
        length: number of values instead, for a finite dimension.
        least: minimum number of values with `share`.
    """
    if isinstance(dimension, Choices):
        return dimension
    if isinstance(dimension, Range):
        return _range_window(dimension, centre, share)
    values = dimension.values
    length = min(length or max(least, round(share * len(values))), len(values))
    middle = (len(values) - 1) // 2 if isinstance(centre, type) else values.index(centre)
    first = min(max(middle - length // 2, 0), len(values) - length)
    return replace(dimension, values=values[first : first + length])


def _range_window(dimension: Range, centre: Centre, share: float) -> Dimension:
    half = share / 2
    unit = dimension.to_unit(centre) if isinstance(centre, int | float) else 0.5
    unit = min(max(unit, half), 1 - half)
    low, high = dimension.from_unit(unit - half), dimension.from_unit(unit + half)
    assert isinstance(low, int | float)
    assert isinstance(high, int | float)
    return replace(dimension, low=low, high=high)
