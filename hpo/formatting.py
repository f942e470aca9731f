"""Formats numbers, values and times for people; `hpo.trials.score_format` formats scores."""

import json
import time
from collections.abc import Mapping
from typing import Any

_LONGEST = 60
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def format_count(number: int, thing: str) -> str:
    """Return a number with a noun, such as `3 trials` for the noun `trial*`; the star becomes the s of the plural."""
    return f"{number:,} {thing.replace('*', '' if number == 1 else 's')}"


def format_duration(seconds: float) -> str:
    """Return a duration as text, such as `0.4 s`, `95 s`, `14 min` or `3.5 h`."""
    if seconds < 120:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def format_time(seconds: float) -> str:
    """Return a time, given in seconds since the epoch, as local time: `2026-01-31 12:00:00`."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


def format_size(size: float) -> str:
    """Return a number of bytes as text with a suitable unit, such as `340 KiB` or `1.2 GiB`."""
    power = 0
    while size >= 999.5 and power < len(_UNITS) - 1:
        size, power = size / 1024, power + 1
    return f"{size:.3g} {_UNITS[power]}"


def format_value(value: Any) -> str:
    """Return the value of a hyperparameter or of a metric as text.

    Floats have at most six significant digits, and integers have all digits. Lists and mappings become JSON.
    """
    if isinstance(value, float):
        return f"{value:g}"
    is_nested = isinstance(value, list | tuple | Mapping)
    return json.dumps(value, sort_keys=True, separators=(",", ":")) if is_nested else str(value)


def format_short(value: Any) -> str:
    """Return a value as a short text for a table: floats with at most three digits, such as `0.01`, `3e-4`, `5.57e-5`.

    Long texts are cut.
    """
    if not isinstance(value, float):
        return cut_text(format_value(value))
    plain = f"{value:.3g}"
    digits, _, exponent = f"{value:.2e}".partition("e")
    scientific = f"{digits.rstrip('0').rstrip('.')}e{int(exponent)}" if exponent else plain
    return min(plain, scientific, key=len)


def cut_text(text: str, most: int = _LONGEST) -> str:
    """Return a text of at most `most` characters: a longer text is cut at the end, and then ends with `...`."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


def format_scores(values: str, in_search: str = "") -> str:
    """Return a text with the values that decided the choice of a winner.

    If `in_search` is given, `values` are from trainings on fresh seeds, and `in_search` holds the values from the
    search.
    """
    if not in_search:
        return values
    # With a single metric, do not repeat the metric's name, which is already in `values`.
    return f"{values} on fresh seeds ({in_search if ', ' in values else in_search.rpartition(' ')[2]} in the search)"
