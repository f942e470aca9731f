"""Values of report.json as a page shows them: lists of values, tables, texts, and missing values."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from hpo.report.part import reason_missing

# Longer tables are collapsed, and the longest are cut; report.json has all rows.
_MOST_OPEN, _MOST_ROWS = 25, 200
_HASH = re.compile(r"[0-9a-f]{32,}")


class Block(NamedTuple):
    """A piece of a page.

    Attributes:
        kind: `missing` holds a reason, `text` and `code` a text, `list` values, `pairs` names with their values,
            `table` a ShownTable.
        content: the content of this kind.
    """

    kind: str
    content: Any


class ShownTable(NamedTuple):
    """A table of texts.

    Attributes:
        head: the names of the columns.
        rows: the rows that are shown, one text per column.
        num_rows: how many rows there are, including those not shown.
    """

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    num_rows: int

    @property
    def is_long(self) -> bool:
        """Whether the table is collapsed."""
        return self.num_rows > _MOST_OPEN


def blocks(value: Any) -> list[Block]:
    """Return the pieces that show a value of report.json."""
    reason = reason_missing(value)
    if reason is not None:
        return [Block("missing", reason)]
    if isinstance(value, Mapping) and value:
        return _mapping(value)
    if is_list(value) and value:
        return [_sequence(value)]
    if isinstance(value, str) and (value.startswith("hpo ") or _HASH.fullmatch(value)):
        return [Block("code", value)]
    return [Block("text", plain_text(value))]


def plain_text(value: Any) -> str:
    """Return a value as the text of a cell: numbers with six digits, None as a dash."""
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
    # The whole text would push other columns off the page; report.json has it.
    return f"{value[:16]}…" if isinstance(value, str) and _HASH.fullmatch(value) else str(value)


def is_list(value: Any) -> bool:
    """Return whether the value is a list and not a text."""
    return isinstance(value, Sequence) and not isinstance(value, str)


def _mapping(value: Mapping[str, Any]) -> list[Block]:
    inner = list(value.values())
    if all(isinstance(item, Mapping) and item and not _is_deep(item) for item in inner):
        return [_crossed(value)]
    columns = {key: item for key, item in value.items() if is_list(item) and len(item) > 2 and not _is_deep(item)}
    if len(columns) > 1 and len({len(item) for item in columns.values()}) == 1:
        # Lists of equal length are columns.
        others = {key: item for key, item in value.items() if key not in columns}
        return [*([_pairs(others)] if others else ()), _table(columns, zip(*columns.values(), strict=True))]
    if len(value) > _MOST_OPEN and not _is_deep(value):
        return [_table(("name", "value"), value.items())]
    return [_pairs(value)]


def _crossed(value: Mapping[str, Mapping[str, Any]]) -> Block:
    """Return a table of two sets of names, the longer one downwards."""
    names = list(dict.fromkeys(key for item in value.values() for key in item))
    if len(names) <= len(value) or len(names) < 8:
        rows = ((key, *(item.get(name, "") for name in names)) for key, item in value.items())
        return _table(("", *map(_name, names)), rows)
    return _table(("", *value), ((name, *(item.get(name, "") for item in value.values())) for name in names))


def _sequence(value: Sequence[Any]) -> Block:
    if all(isinstance(item, Mapping) for item in value):
        names = list(dict.fromkeys(name for item in value for name in item))
        return _table(map(_name, names), ([item.get(name, "") for name in names] for item in value))
    if all(isinstance(item, str) and " " in item for item in value):
        return Block("list", value)
    return Block("text", plain_text(value))


def _pairs(value: Mapping[str, Any]) -> Block:
    return Block("pairs", [(_name(key), item) for key, item in value.items()])


def _table(head: Iterable[str], rows: Iterable[Iterable[Any]]) -> Block:
    texts = [[plain_text(item) for item in row] for row in rows]
    return Block("table", ShownTable(list(head), texts[:_MOST_ROWS], len(texts)))


def _is_deep(value: Any) -> bool:
    """Return whether the value holds mappings or long lists, which do not fit into cells."""
    inner = value.values() if isinstance(value, Mapping) else value
    return any(isinstance(item, Mapping) or (is_list(item) and len(item) > 8) for item in inner)


def _name(key: str) -> str:
    """Return a key as words; dotted keys are names of the study and stay as they are."""
    return key if "." in key else key.replace("_", " ")
