"""A comparison as one self-contained page: verdicts, standings, and interactive curves."""

from collections.abc import Mapping, Sequence
from typing import Any

from hpo.report.comparison import ComparisonJson
from hpo.report.figures.mean_curves import draw_mean_curves
from hpo.report.pages.comparison_cells import READING, answers, first_pairs, headline, standings, verdicts, winners
from hpo.report.pages.html import render

_TITLES = {"a_beats_b_interval": "P(A beats B)", "p_holm": "p (Holm)", "folds": "fold by fold"}


def render_comparison_page(result: ComparisonJson) -> str:
    """Return the page of the content of comparison.json."""
    pairs, folds = result["pairs"], result.get("folds", ())
    first = first_pairs(result)
    others = pairs[len(first) :]
    figures = [draw_mean_curves(result, unit) for unit in ("trials", "seconds")]
    figures = [figure for figure in figures if figure is not None]
    return render(
        "comparison.html",
        result=result,
        answers=answers(result),
        headline=headline(result),
        verdicts=(*verdicts(result, first), _marks(first)),
        winners=(*winners(result), _marks(folds)),
        reading=READING if first else "",
        figures=figures,
        has_figures=bool(figures),
        other_verdicts=(*verdicts(result, others), _marks(others)),
        standings=(*standings(result), _marks(result["standings"])),
        titles=_TITLES,
    )


def _marks(items: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the class of each row."""
    return ["decided" if item.get("better") else "" for item in items]
