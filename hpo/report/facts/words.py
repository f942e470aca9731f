"""Names and numbers as text, for the figures and the pages of a report."""

import html

from hpo.engine.course.course import EndedBy
from hpo.report.facts.schema.missing import is_missing
from hpo.report.facts.schema.report import StudyPart

_ENDS: dict[EndedBy, str] = {
    "minutes": ", ended by study.minutes",
    "stop_without_gain": ", ended by study.stop_without_gain",
    "space": ", ended when nothing was left to propose",
}


def heading(study: StudyPart) -> tuple[str, str]:
    """Return the title of a report, in one line, and the study's name for below it; without a title the name alone."""
    name = f"Study {study['name']}"
    title = "" if is_missing(study["title"]) else " ".join(study["title"].split())
    return (title, name) if title else (name, "")


def shown(text: str) -> str:
    """Return a name or value for a figure, escaped because plotly reads some tags as style."""
    return html.escape(text, quote=False)


def counted(number: int, thing: str) -> str:
    """Return a number with its noun, in which a star marks the place of the plural's s."""
    return f"{number:,} {thing.replace('*', '' if number == 1 else 's')}"


def score_text(value: float) -> str:
    """Return a score with four decimals, or with four digits where these would say nothing of it."""
    return f"{value:.4f}" if value == 0 or 1e-2 <= abs(value) < 1e4 else f"{value:.4g}"


def times(number: int) -> str:
    """Return how often something was done, in words."""
    return "once" if number == 1 else f"{number} times"


def ended(by: EndedBy | None) -> str:
    """Return what ended the search, to follow its number of trials; empty where that was it, and where unknown."""
    return "" if by is None else _ENDS.get(by, "")
