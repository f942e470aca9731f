"""Draws plotly figures with matplotlib: for notebook viewers that do not run JavaScript, and as files for a paper."""

import base64
import io
import json
import re
import uuid
import warnings
from collections.abc import Mapping
from html import unescape
from typing import Any

from plotly.graph_objects import Figure
from plotly.io import renderers

from hpo.errors import StudyError
from hpo.report.figures.style import GREY, figure_content
from hpo.report.pages.html import render

_WIDTH, _DOTS = 900, 100  # pixels, and pixels per inch
_POINTS = 72 / _DOTS  # points per pixel
_PAPER_WIDTH, _PAPER_DOTS = 650, 300  # width of a one-column page's text, at which fonts keep their size
FILE_FORMATS = ("pdf", "png", "svg")
# Without dates, equal figures give equal files.
_NO_TIME = {"pdf": {"CreationDate": None}, "svg": {"Date": None}, "png": {}}
_LEGEND = 120  # number of characters that fit next to each other in `_WIDTH`
_DASHES = {"dash": "--", "dot": ":", "dashdot": "-."}
_SYMBOLS = {"star": "*", "line-ew-open": "_", "circle-open": "o"}
_PLAIN = {"parse_math": False}  # a name with $ does not start a formula

Part = Mapping[str, Any]


class NotebookFigure(Figure):  # type: ignore[misc]  # plotly has no types
    """A plotly figure for exported notebooks. In such a notebook, a plain figure would be empty or need Chrome."""

    def __init__(self, figure: Figure) -> None:
        super().__init__(figure)
        self.update_layout(template="plotly_white")

    def _repr_mimebundle_(self, *_: Any, **__: Any) -> dict[str, Any]:
        """Return the figure as plotly JSON and HTML; if the figure has only lines, dots and bars, also as a PNG."""
        png = draw_png(self)
        picture = {} if png is None else {"image/png": base64.b64encode(png).decode()}
        page = render("notebook.html", figure=self, place=f"figure-{uuid.uuid4()}", png=picture.get("image/png"))
        return {"application/vnd.plotly.v1+json": json.loads(self.to_json()), "text/html": page, **picture}

    def _ipython_display_(self) -> None:
        """Show the figure in the output of a cell; in a terminal, open the browser."""
        from IPython.display import display

        if renderers.default == "browser":
            super()._ipython_display_()
        else:
            display(self._repr_mimebundle_(), raw=True)


def draw_for_paper(figure: Any, name: str, file_format: str) -> bytes:
    """Return a figure as a file in one of `FILE_FORMATS`, as wide as a page's text.

    Matplotlib draws figures of lines, dots and horizontal bars; plotly draws the others.

    Args:
        figure: a plotly figure.
        name: the figure's name for the error message.
        file_format: one of `FILE_FORMATS`.

    Raises:
        StudyError: plotly lacks the package or the browser for writing a file.
    """
    from matplotlib import rc_context  # lazy, because it loads slowly

    # Publishers accept TrueType fonts only.
    with rc_context({"pdf.fonttype": 42, "svg.hashsalt": name}):
        picture = _draw(figure, _PAPER_WIDTH)
        if picture is not None:
            return _save(picture, file_format, _PAPER_DOTS)
    try:
        content: bytes = figure.to_image(format=file_format, width=_PAPER_WIDTH, scale=_PAPER_DOTS / _DOTS)
    except RuntimeError as error:
        raise StudyError(
            f"file: plotly needs the package kaleido and Chrome to write {name} as a file; run "
            f"`pip install kaleido` and `plotly_get_chrome`, or write a page with "
            f"`study.plot({name!r}).write_html('{name}.html')`"
        ) from error
    return content


def draw_png(figure: Any) -> bytes | None:
    """Return a figure as a PNG drawn by matplotlib, without colour bars.

    Return None if the figure has anything other than lines, dots and horizontal bars.
    """
    picture = _draw(figure, _WIDTH)
    return None if picture is None else _save(picture, "png", _DOTS)


def _save(picture: Any, file_format: str, dots: int) -> bytes:
    content = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", message="Glyph", category=UserWarning
        )  # a box replaces a character without a glyph
        picture.savefig(content, format=file_format, dpi=dots, bbox_inches="tight", metadata=_NO_TIME[file_format])
    return content.getvalue()


def _draw(figure: Any, width: int) -> Any:
    """Return a matplotlib figure, `width` pixels wide; None if the figure has traces that this module cannot draw."""
    from matplotlib import figure as matplotlib  # lazy, as above

    data, layout = figure_content(figure).values()
    if any(trace["type"] not in ("scatter", "bar") for trace in data):
        return None
    # Keep the aspect ratio, except for rows of bars, which need their height.
    height = layout["height"] * (1 if any(trace["type"] == "bar" for trace in data) else width / _WIDTH)
    picture = matplotlib.Figure(figsize=(width / _DOTS, height / _DOTS), dpi=_DOTS)
    panels: dict[str, Any] = {}
    names: dict[str, dict[str, int]] = {}
    for trace in data:
        number = trace.get("xaxis", "x")[1:]
        axes = [layout.get(f"{letter}axis{number}", {}) for letter in "xy"]
        if number not in panels:
            (left, right), (bottom, top) = (axis.get("domain", (0, 1)) for axis in axes)
            shared = panels.get(axes[1].get("matches", "none")[1:])
            panels[number] = picture.add_axes((left, bottom, right - left, top - bottom), sharey=shared)
        # The position of each category name on its axis.
        for letter, axis in zip("xy", axes, strict=True):
            names.setdefault(letter + number, {name: at for at, name in enumerate(axis.get("categoryarray", ()))})
        x, y = (_numbers(trace[letter], names[letter + number]) for letter in "xy")
        _draw_trace(panels[number], trace, x, y)
    for number, panel in panels.items():
        for letter in "xy":
            _finish_axis(panel, letter, layout.get(f"{letter}axis{number}", {}), names[letter + number])
    _write_notes(picture, panels, layout)
    _add_legend(picture, panels, layout, width)
    return picture


def _numbers(values: Any, ranks: dict[str, int]) -> list[float]:
    """Return values as positions on an axis; a new category gets the next position in `ranks`, and None becomes NaN."""
    return [
        ranks.setdefault(value, len(ranks)) if isinstance(value, str) else float("nan" if value is None else value)
        for value in values
    ]


def _draw_trace(panel: Any, trace: Part, x: list[float], y: list[float]) -> None:
    line, marker = trace.get("line", {}), trace.get("marker", {})
    common = {
        "label": unescape(trace["name"]) if "name" in trace and trace.get("showlegend", True) else None,
        "zorder": 2,
    }
    if trace["type"] == "bar":
        error = trace.get("error_x", {})
        spread = [error["arrayminus"], error["array"]] if error else None
        look = {"color": _colours(marker["color"]), "xerr": spread, "ecolor": error.get("color")}
        if edge := marker.get("line"):
            look |= {"edgecolor": _colours(edge["color"]), "linewidth": edge["width"] * _POINTS}
        panel.barh(y, x, left=trace.get("base"), height=0.7, **look, **common)
        return
    hold = line.get("shape") == "hv"
    if trace.get("fill") == "tonexty":
        edge = panel.lines[-1].get_ydata()
        panel.fill_between(
            x, edge, y, color=_colours(trace["fillcolor"]), step="post" if hold else None, linewidth=0, zorder=2
        )
    if "lines" in trace["mode"]:
        width, dash = line.get("width", 2) * _POINTS, _DASHES.get(line.get("dash", ""), "-")
        style = "steps-post" if hold else "default"
        panel.plot(x, y, dash, color=_colours(line.get("color", GREY)), linewidth=width, drawstyle=style, **common)
    for letter in "xy":
        if error := trace.get(f"error_{letter}"):
            bars = {f"{letter}err": [error["arrayminus"], error["array"]], "ecolor": error["color"], "capsize": 2}
            panel.errorbar(x, y, fmt="none", elinewidth=1, zorder=2, **bars)
    if "markers" in trace["mode"] and any(value == value for value in x):
        colours, symbol = _colours(marker.get("color", line.get("color", GREY))), marker.get("symbol", "")
        look = {"c": [colours] if isinstance(colours, tuple) else colours, "marker": _SYMBOLS.get(symbol, "o")}
        look |= {"s": (marker.get("size", 6) * _POINTS) ** 2, "alpha": marker.get("opacity", trace.get("opacity"))}
        if symbol.startswith("circle-"):
            look |= {"facecolors": "none", "edgecolors": look.pop("c")}
        panel.scatter(x, y, linewidths=marker.get("line", {}).get("width", 0) * _POINTS or None, **look, **common)


def _finish_axis(panel: Any, letter: str, axis: Part, ranks: Mapping[str, int]) -> None:
    """Set the name, scale, ends and ticks of an axis."""
    getattr(panel, f"set_{letter}label")(unescape(axis.get("title", {}).get("text", "")), **_PLAIN)
    is_log, ends = axis.get("type") == "log", getattr(panel, f"set_{letter}lim")
    if is_log:
        getattr(panel, f"set_{letter}scale")("log")
        panel.minorticks_off()
    if axis.get("rangemode") == "tozero":
        ends(min(0, getattr(panel, f"get_{letter}lim")()[0]), None)
    if axis.get("range"):
        ends(*(10**end if is_log else end for end in axis["range"]))
    places, texts = axis.get("tickvals", list(ranks)), axis.get("ticktext", list(ranks))
    if texts:
        low, high = getattr(panel, f"get_{letter}lim")()
        getattr(panel, f"set_{letter}ticks")([ranks.get(at, at) for at in places], map(unescape, texts), **_PLAIN)
        ends(low, high)
    if axis.get("showticklabels") is False:
        panel.tick_params(**{"labelleft" if letter == "y" else "labelbottom": False})
    if axis.get("autorange") == "reversed":
        getattr(panel, f"invert_{letter}axis")()
    if axis.get("showgrid", True):
        panel.grid(axis=letter, color="#e5e5e5", zorder=0)
    getattr(panel, f"{letter}axis").set_visible(axis.get("visible", True))
    panel.spines[:].set_visible(False)


def _write_notes(picture: Any, panels: Mapping[str, Any], layout: Part) -> None:
    """Draw lines across the panels, and write the texts inside and above the panels."""
    for shape in layout.get("shapes", ()):
        line = shape["line"]
        look = {"linestyle": _DASHES.get(line.get("dash"), "-"), "color": line["color"], "lw": 1}
        if shape.get("xref", "x").endswith("domain"):
            panels[shape.get("yref", "y")[1:]].axhline(shape["y0"], **look)
        else:
            panels[shape.get("xref", "x")[1:]].axvline(shape["x0"], **look)
    for note in layout.get("annotations", ()):
        look = {"ha": note["xanchor"], "va": note.get("yanchor", "center"), "size": note["font"]["size"] * _POINTS}
        look["color"] = note["font"].get("color", "black")
        if note.get("xref") == "paper":
            picture.text(note["x"], note["y"] + 0.02, unescape(note["text"]), **look, **_PLAIN)
        else:
            behind = {"color": note["bgcolor"], "pad": 1}
            panels[""].text(note["x"], note["y"], unescape(note["text"]) + " ", bbox=behind, zorder=3, **look, **_PLAIN)


def _add_legend(picture: Any, panels: Mapping[str, Any], layout: Part, width: int) -> None:
    drawn = [panel.get_legend_handles_labels() for panel in panels.values()]
    handles = {name: handle for some, names in drawn for handle, name in zip(some, names, strict=True)}
    if handles and layout.get("showlegend", True):
        columns = max(1, min(8, _LEGEND * width // _WIDTH // (max(map(len, handles)) + 6)))
        has_titles = any(note.get("xref") == "paper" for note in layout.get("annotations", ()))
        place = (0, 1.05 if has_titles else 1)
        legend = picture.legend(handles.values(), handles, loc="lower left", bbox_to_anchor=place, ncols=columns)
        for text in legend.get_texts():
            text.set_parse_math(False)


def _colours(colour: Any) -> Any:
    """Return a plotly colour in matplotlib's form; for a list of colours, return a list."""
    if not isinstance(colour, str):
        return [_colours(one) for one in colour]
    numbers = [float(number) for number in re.findall(r"[\d.]+", colour)]
    return colour if not numbers or colour.startswith("#") else (*(part / 255 for part in numbers[:3]), numbers[3])
