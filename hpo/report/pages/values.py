"""Values of report.json as HTML: lists of values, tables, and in red what is missing."""

import html
import re
from collections.abc import Mapping, Sequence
from typing import Any

from hpo.report.facts.fields import reason_missing
from hpo.report.pages.html import table

# Longer tables are folded away, and the longest cut: report.json has them whole.
_MOST_OPEN, _MOST_ROWS = 25, 200
_HASH = re.compile(r"[0-9a-f]{32,}")


def shown_value(value: Any) -> str:
    """Return a value of report.json as HTML."""
    reason = reason_missing(value)
    if reason is not None:
        return missing_note(reason)
    if isinstance(value, Mapping):
        return _mapping(value)
    if is_list(value):
        return _sequence(value)
    if isinstance(value, str) and (value.startswith("hpo ") or _HASH.fullmatch(value)):
        return f"<code>{html.escape(value)}</code>"
    return html.escape(plain_text(value))


def missing_note(reason: str) -> str:
    """Return why something is missing, to be seen as such."""
    return f"<span class='missing'>missing: {html.escape(reason)}</span>"


def plain_text(value: Any) -> str:
    """Return a value as the text of a cell: numbers with six digits, what does not exist as a dash."""
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
    # Whole it would push the other columns off the page; report.json has it.
    return f"{value[:16]}…" if isinstance(value, str) and _HASH.fullmatch(value) else str(value)


def pairs(items: Sequence[tuple[str, str]]) -> str:
    """Return names with their values, each value as HTML."""
    rows = "".join(f"<dt>{html.escape(name)}</dt><dd>{value}</dd>" for name, value in items)
    return f"<dl class='pairs'>{rows}</dl>"


def folded(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table, folded away where it is long."""
    cut = f"<p>The first {_MOST_ROWS} of {len(rows):,}; report.json has all.</p>" if len(rows) > _MOST_ROWS else ""
    content = table(head, rows[:_MOST_ROWS]) + cut
    if len(rows) <= _MOST_OPEN:
        return content
    return f"<details><summary>{len(rows):,} rows</summary>{content}</details>"


def is_list(value: Any) -> bool:
    """Return whether the value is a list of others, and no text."""
    return isinstance(value, Sequence) and not isinstance(value, str)


def _mapping(value: Mapping[str, Any]) -> str:
    if not value:
        return "none"
    inner = list(value.values())
    if all(isinstance(item, Mapping) and item and not _is_deep(item) for item in inner):
        return _crossed(value)
    columns = {key: item for key, item in value.items() if is_list(item) and len(item) > 2 and not _is_deep(item)}
    if len(columns) > 1 and len({len(item) for item in columns.values()}) == 1:
        # Lists of one length are columns.
        others = [(_name(key), shown_value(item)) for key, item in value.items() if key not in columns]
        rows = [[plain_text(item) for item in row] for row in zip(*columns.values(), strict=True)]
        return (pairs(others) if others else "") + folded(list(columns), rows)
    if len(value) > _MOST_OPEN and not _is_deep(value):
        return folded(("name", "value"), [(key, plain_text(item)) for key, item in value.items()])
    return pairs([(_name(key), shown_value(item)) for key, item in value.items()])


def _crossed(value: Mapping[str, Mapping[str, Any]]) -> str:
    """Return a table of two sets of names, the longer one downwards."""
    names = list(dict.fromkeys(key for item in value.values() for key in item))
    if len(names) <= len(value) or len(names) < 8:
        rows = [(key, *(plain_text(item.get(name, "")) for name in names)) for key, item in value.items()]
        return folded(("", *map(_name, names)), rows)
    rows = [(name, *(plain_text(item.get(name, "")) for item in value.values())) for name in names]
    return folded(("", *value), rows)


def _sequence(value: Sequence[Any]) -> str:
    if not value:
        return "none"
    if all(isinstance(item, Mapping) for item in value):
        names = list(dict.fromkeys(name for item in value for name in item))
        rows = [[plain_text(item[name]) if name in item else "" for name in names] for item in value]
        return folded([_name(name) for name in names], rows)
    if all(isinstance(item, str) and " " in item for item in value):
        return f"<ul>{''.join(f'<li>{shown_value(item)}</li>' for item in value)}</ul>"
    return html.escape(plain_text(value))


def _is_deep(value: Any) -> bool:
    """Return whether there are values in the values of a value, so that they do not fit into cells."""
    inner = value.values() if isinstance(value, Mapping) else value
    return any(isinstance(item, Mapping) or (is_list(item) and len(item) > 8) for item in inner)


def _name(key: str) -> str:
    """Return a key as people write it; dotted ones are names of the study's own."""
    return key if "." in key else key.replace("_", " ")
