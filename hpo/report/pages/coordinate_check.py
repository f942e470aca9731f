"""A coordinate check as a table, a PNG, and a self-contained page."""

from hpo.report.figures.coordinate_check import draw_coordinate_check
from hpo.report.formatting import sentence
from hpo.report.pages.html import render
from hpo.report.pages.picture import draw_png
from hpo.report.part import Table
from hpo.study.coordinate_check import STEPS, CoordinateCheck


def slopes_table(check: CoordinateCheck) -> Table:
    """Return a table with each layer's slope after each step in `STEPS`; see `CoordinateCheck.slopes`.

    The last column has one of three words for some layers:

    - `expected`: a slope of the layer is beyond ±`BOUND`, and the size of the layer's output is known to change.
    - `steepest`: the layer has the steepest slope of all layers that are not `expected`.
    - `outside`: a slope of the layer is beyond ±`BOUND`, and the layer is neither `expected` nor `steepest`.
    """
    steepest = next((layer for layer in check.steepest if layer not in check.expected), None)
    rows = [
        (
            layer,
            *(f"{check.slopes[step][layer]:+.2f}" for step in STEPS),
            "steepest" if layer == steepest else "outside" if layer in check.outside else _expected_text(check, layer),
        )
        for layer in check.sizes[STEPS[0]]
    ]
    return Table(("layer", *(f"step {step}" for step in STEPS), ""), rows)


def _expected_text(check: CoordinateCheck, layer: str) -> str:
    return "expected" if layer in check.expected else ""


def coordinate_check_html(check: CoordinateCheck) -> str:
    """Return a page with the interactive figure and the table."""
    table = slopes_table(check)
    values = {"drawn": draw_coordinate_check(check), "verdict": sentence(check.verdict), "has_figures": True}
    return render("coordinate_check.html", head=table.head, rows=table.rows, **values)


def coordinate_check_png(check: CoordinateCheck) -> bytes:
    """Return the figure as a PNG."""
    png = draw_png(draw_coordinate_check(check).figure)
    assert png is not None
    return png
