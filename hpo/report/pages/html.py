"""HTML: the only place where templates are read and where a study's content is escaped."""

import base64
import gzip
import re
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from hpo.report.figures.canvas.content import figure_content
from hpo.report.figures.canvas.look import PALETTE
from hpo.report.pages.values import blocks
from hpo.report.part import part

_MARKS = re.compile(r"(`[^`]+`|\*\*[^*]+\*\*)")
# The other buttons would upload the figure, or have no effect on lines.
_PLOTLY_SETTINGS = {
    "displaylogo": False,
    "responsive": True,
    "modeBarButtons": [["toImage", "zoom2d", "pan2d", "resetScale2d"]],
}


def render(template: str, **values: Any) -> str:
    """Return a page: a template of the folder `templates`, filled with values.

    Every value is escaped; as data of a script (`tojson`) no text in it can end the script.
    """
    return templates().get_template(template).render(values)


@cache
def templates() -> Environment:
    """Return the templates, with the functions that they may call."""
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
        "packed_plotly": lambda: base64.b64encode(_packed_plotly()).decode(),
        "palette": PALETTE,
        "part_or": _part_or,
        "plotly_library": _plotly_library,
        "plotly_settings": _PLOTLY_SETTINGS,
        "text_runs": _MARKS.split,
    }
    return environment


def _part_or(instead: Callable[[str], str], caller: Callable[[], str]) -> str:
    """Return the content of a template's `call`; if it fails, the result of the macro `instead` with the reason."""
    return part(caller, instead)


def _plotly_library() -> str:
    """Return plotly.js with the traces of flat axes alone: a third of the library that comes with plotly.

    It is that of `npm pack plotly.js-cartesian-dist-min` (MIT licence), of the major version that plotly draws for.
    """
    return gzip.decompress(_packed_plotly()).decode()


def _packed_plotly() -> bytes:
    return (files("hpo.report.pages") / "plotly-cartesian.min.js.gz").read_bytes()
