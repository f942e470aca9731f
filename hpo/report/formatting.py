"""Names and numbers as text, for the figures and the pages of a report."""

import html
import re
from collections.abc import Mapping, Sequence
from typing import Any

from hpo.formatting import format_value
from hpo.report.part import reason_missing

HASH = re.compile(r"[0-9a-f]{32,}")


def escape_markup(text: str) -> str:
    """Return the text with its markup escaped, because plotly reads some tags in a figure's text as style."""
    return html.escape(text, quote=False)


def join_names(names: Sequence[str]) -> str:
    """Return names joined as in a sentence: a, b and c."""
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def times_text(number: int) -> str:
    """Return `once` for 1, and the number with `times` for any other number, such as `3 times`."""
    return "once" if number == 1 else f"{number} times"


def plain_text(value: Any) -> str:
    """Return a value of report.json as the text of a table cell: None as a dash, a hash cut to 16 characters.

    Whole numbers have commas. Floats have at most six significant digits; from 100,000 to 10^15, they have commas and
    no decimals.
    """
    if reason_missing(value) is not None:
        return f"missing: {reason_missing(value)}"
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.0f}" if 1e5 <= abs(value) < 1e15 else f"{value:.6g}"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={plain_text(item)}" for key, item in value.items()) or "none"
    if is_list(value):
        return ", ".join(map(plain_text, value)) or "none"
    # The whole hash would push other columns off the page; report.json contains it.
    return f"{value[:16]}…" if isinstance(value, str) and HASH.fullmatch(value) else str(value)


def is_list(value: Any) -> bool:
    """Return whether the value is a sequence other than a string."""
    return isinstance(value, Sequence) and not isinstance(value, str)


def point_text(point: Mapping[str, Any]) -> str:
    """Return a point in one line."""
    return ", ".join(f"{key}={format_value(value)}" for key, value in point.items())


def code_rows(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return table rows of keys and values; the keys are formatted as code."""
    return [(f"`{key}`", format_value(value)) for key, value in values.items()]


def sentence(text: str) -> str:
    """Return a text as a sentence: with a capital letter and a full stop."""
    return f"{text[0].upper()}{text[1:]}."
