"""HTML: renders the templates, escapes a study's content, and lays out the values of report.json."""

import base64
import gzip
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from hpo.report.figures.style import PALETTE, figure_content, white_style
from hpo.report.formatting import HASH, is_list, plain_text
from hpo.report.part import part, reason_missing

_MARKS = re.compile(r"(`[^`]+`|\*\*[^*]+\*\*)")
# Longer tables are folded, and the longest are cut; report.json has all rows.
_MOST_OPEN, _MOST_ROWS = 25, 200
# Plotly's other buttons upload the figure, or have no effect on lines.
_PLOTLY_SETTINGS = {
    "displaylogo": False,
    "responsive": True,
    "modeBarButtons": [["toImage", "zoom2d", "pan2d", "resetScale2d"]],
}


def render(template: str, **values: Any) -> str:
    """Return a page: the template from the folder `templates`, filled with the values.

    The template escapes every value. In a script, the filter `tojson` keeps texts from closing the script element.
    """
    return templates().get_template(template).render(values)


def render_macro(template: str, macro: str, **values: Any) -> Markup:
    """Return a part of a page: the output of a template's macro for these values."""
    html: Markup = getattr(templates().get_template(template).module, macro)(**values)
    return html


@cache
def templates() -> Environment:
    """Return the Jinja environment of the templates, with the functions that the templates call."""
    environment = Environment(
        loader=PackageLoader("hpo.report.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    environment.globals |= {
        "blocks": blocks,
        "figure_content": figure_content,
        "packed_plotly": lambda: base64.b64encode(_plotly_library()).decode(),
        "palette": PALETTE,
        # Renders the body of a template's `call`, or if it fails, the macro `instead` with the reason.
        "part_or": lambda instead, caller: part(caller, instead),
        "plotly_library": lambda: gzip.decompress(_plotly_library()).decode(),
        "plotly_settings": _PLOTLY_SETTINGS,
        "text_runs": _MARKS.split,
        "white_style": white_style,
    }
    return environment


def _plotly_library() -> bytes:
    """Return a compressed plotly.js that has only cartesian traces.

    This library is a third as large as the plotly.js of the Python package plotly, if both are compressed. The file is
    from `npm pack plotly.js-cartesian-dist-min` (MIT licence), in the major version that plotly supports.
    """
    return (files("hpo.report.pages") / "plotly-cartesian.min.js.gz").read_bytes()


_Block = tuple[str, Any]


class _Table(NamedTuple):
    """A table of texts: the visible rows, and the number of all rows."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    num_rows: int
    is_long: bool


def blocks(value: Any) -> list[_Block]:
    """Return the blocks that show a value of report.json, as pairs of kind and content.

    A block of kind `missing` has a reason, and a block of kind `text` or `code` has a text. A block of kind `list` has
    values, one of kind `pairs` has names with their values, and one of kind `table` has a table.
    """
    reason = reason_missing(value)
    if reason is not None:
        return [("missing", reason)]
    if isinstance(value, Mapping) and value:
        return _mapping(value)
    if is_list(value) and value:
        return [_sequence(value)]
    if isinstance(value, str) and (value.startswith("hpo ") or HASH.fullmatch(value)):
        return [("code", value)]
    return [("text", plain_text(value))]


def _mapping(value: Mapping[str, Any]) -> list[_Block]:
    inner = list(value.values())
    if all(isinstance(item, Mapping) and item and not _is_deep(item) for item in inner):
        return [_cross_table(value)]
    columns = {key: item for key, item in value.items() if is_list(item) and len(item) > 2 and not _is_deep(item)}
    if len(columns) > 1 and len({len(item) for item in columns.values()}) == 1:
        # Lists of equal length become columns.
        others = {key: item for key, item in value.items() if key not in columns}
        return [*([_pairs(others)] if others else ()), _table(columns, zip(*columns.values(), strict=True))]
    if len(value) > _MOST_OPEN and not _is_deep(value):
        return [_table(("name", "value"), value.items())]
    return [_pairs(value)]


def _cross_table(value: Mapping[str, Mapping[str, Any]]) -> _Block:
    """Return a mapping of mappings as a table with a row per outer key; with many inner keys, a row per inner key."""
    names = list(dict.fromkeys(key for item in value.values() for key in item))
    if len(names) <= len(value) or len(names) < 8:
        rows = ((key, *(item.get(name, "") for name in names)) for key, item in value.items())
        return _table(("", *map(_name, names)), rows)
    return _table(("", *value), ((name, *(item.get(name, "") for item in value.values())) for name in names))


def _sequence(value: Sequence[Any]) -> _Block:
    if all(isinstance(item, Mapping) for item in value):
        names = list(dict.fromkeys(name for item in value for name in item))
        return _table(map(_name, names), ([item.get(name, "") for name in names] for item in value))
    if all(isinstance(item, str) and " " in item for item in value):
        return ("list", value)
    return ("text", plain_text(value))


def _pairs(value: Mapping[str, Any]) -> _Block:
    return ("pairs", [(_name(key), item) for key, item in value.items()])


def _table(head: Iterable[str], rows: Iterable[Iterable[Any]]) -> _Block:
    texts = [[plain_text(item) for item in row] for row in rows]
    return ("table", _Table(list(head), texts[:_MOST_ROWS], len(texts), len(texts) > _MOST_OPEN))


def _is_deep(value: Any) -> bool:
    """Return whether the value contains mappings or long lists; neither fits into a cell."""
    inner = value.values() if isinstance(value, Mapping) else value
    return any(isinstance(item, Mapping) or (is_list(item) and len(item) > 8) for item in inner)


def _name(key: str) -> str:
    """Return a key as words; a dotted key is a setting's name and stays unchanged."""
    return key if "." in key else key.replace("_", " ")
