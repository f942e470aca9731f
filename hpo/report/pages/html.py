"""One HTML page that needs nothing beside itself: its shell and look, tables, and figures that answer to a pointer."""

import html
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_DIGITS = 5  # of a number in a figure; more would not be seen, and double the page

# The other buttons would send the figure elsewhere, or do nothing for lines.
_SETTINGS = {
    "displaylogo": False,
    "responsive": True,
    "modeBarButtons": [["toImage", "zoom2d", "pan2d", "resetScale2d"]],
}


def page(title: str, body: Iterable[str], has_figures: bool, style: str = "", script: str = "") -> str:
    """Return a whole page.

    Args:
        title: plain text.
        body: pieces of HTML, escaped.
        has_figures: whether the library that draws (5 MB, once) goes into it.
        style, script: the page's own, besides what all pages have.
    """
    scripts = []
    if has_figures:
        from plotly.offline import get_plotlyjs  # Half a second to load: only where a page is written.

        scripts = [get_plotlyjs(), f"const settings = {in_script(_SETTINGS)};", _DRAW]
    pieces = {
        "TITLE": html.escape(title),
        "STYLE": _STYLE + style,
        "BODY": "\n".join(body),
        "SCRIPTS": "\n".join(f"<script>{code}</script>" for code in [*scripts, script] if code),
    }
    # By splitting, since what was put in may hold the other marks.
    parts = _PAGE.split("%")
    return "".join(pieces[part] if place % 2 else part for place, part in enumerate(parts))


def table(head: Sequence[str], rows: Iterable[Sequence[str]], marks: Iterable[str] = (), name: str = "") -> str:
    """Return a table of plain texts, which scrolls sideways where it is too wide.

    Args:
        head: of the columns.
        rows: a text a column.
        marks: the class of each row, empty for none; none at all = none has one.
        name: the class of the table.
    """
    classes = iter(marks)
    lines = [f"<div class='wide'><table class='{name}'><thead><tr>" if name else "<div class='wide'><table><thead><tr>"]
    lines += [f"<th>{html.escape(cell)}</th>" for cell in head]
    lines.append("</tr></thead><tbody>")
    for cells in rows:
        mark = next(classes, "")
        row = "".join(f"<td>{html.escape(cell)}</td>" for cell in cells)
        lines.append(f"<tr class='{mark}'>{row}</tr>" if mark else f"<tr>{row}</tr>")
    return "".join([*lines, "</tbody></table></div>"])


def figure_place(name: str, figure: Any) -> str:
    """Return the place of a plotly figure, and beside it the figure as data; it is drawn when it comes into view.

    Args:
        name: letters, digits and dashes; the same in every page with that figure, and once in each.
        figure: with a height in its layout.
    """
    content = {
        "data": [_plain(trace.to_plotly_json()) for trace in figure.data],
        "layout": _plain(figure.layout.to_plotly_json()),
    }
    height = figure.layout.height
    return (
        f"<div class='figure' id='{name}' style='min-height: {height}px'></div>"
        f"<script type='application/json' id='{name}-data'>{in_script(content)}</script>"
    )


def in_script(value: Any) -> str:
    """Return the value as JSON that no text in it can end the script by."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _plain(value: Any) -> Any:
    """Return what a figure holds as JSON's kinds, its numbers rounded to what can be seen."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list | tuple):
        digits = _digits([item for item in value if type(item) is float and math.isfinite(item)])
        return [_rounded(item, digits) if type(item) is float else _plain(item) for item in value]
    if isinstance(value, float):
        # By itself it may be a range's end or a size: nothing is saved by rounding it.
        return value if math.isfinite(value) else None
    if isinstance(value, int) and not isinstance(value, bool):
        return int(value)
    return value


def _digits(values: Sequence[float]) -> int:
    """Return how many significant digits tell the values apart: more where they differ little."""
    if not values:
        return _DIGITS
    size, span = max(map(abs, values)), max(values) - min(values)
    return min(17, _DIGITS + max(0, math.ceil(math.log10(size / span)))) if span else 17


def _rounded(value: float, digits: int) -> float | None:
    return float(f"{value:.{digits}g}") if math.isfinite(value) else None


_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #222; max-width: 76rem; margin: 2rem auto; padding: 0 1rem; }
h1 { margin-bottom: 0.2rem; line-height: 1.2; }
h2 { margin-top: 2.2rem; font-size: 1.2rem; }
.lead { margin-top: 0; color: #444; }
.note { background: #fff6e0; border-left: 4px solid #e69f00; padding: 0.5rem 0.8rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 0.9rem; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: 0.35rem 0.7rem; border-bottom: 1px solid #ddd; white-space: nowrap; }
th { border-bottom: 2px solid #888; }
dt { font-weight: 600; margin-top: 0.4rem; }
dd { margin: 0; color: #444; }
"""

# Only what is looked at is drawn: a page of large figures opens at once. What is printed is drawn whole.
_DRAW = """
const places = [...document.querySelectorAll(".figure")];
const draw = place => {
  const figure = JSON.parse(document.getElementById(place.id + "-data").textContent);
  Plotly.newPlot(place, figure.data, figure.layout, settings);
};
const watcher = new IntersectionObserver(entries => {
  for (const entry of entries) if (entry.isIntersecting) { watcher.unobserve(entry.target); draw(entry.target); }
}, {rootMargin: "800px"});
places.forEach(place => watcher.observe(place));
addEventListener("beforeprint", () => places.filter(place => !place.data).forEach(draw));
"""

# The policy forbids the page to load anything, whatever stands in it.
_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; \
script-src 'unsafe-inline'; img-src data: blob:">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>%TITLE%</title>
<style>%STYLE%</style>
</head>
<body>
%BODY%
<noscript>The figures need JavaScript, which is off.</noscript>
%SCRIPTS%
</body>
</html>
"""
