"""Names and numbers as text, for the figures and the pages of a report."""

import html
from collections.abc import Callable, Sequence

from hpo.engine.course.course import EndedBy
from hpo.engine.trials.digits import score_format
from hpo.report.facts.schema.missing import is_missing, known
from hpo.report.facts.schema.report import ReportJson, StudyPart

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


def listed(names: Sequence[str]) -> str:
    """Return names as in a sentence: a, b and c."""
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def score_text(summary: ReportJson) -> Callable[[float], str]:
    """Return what writes the scores of a report: with the digits that tell the best five and the default apart."""
    default = known(summary["baselines"]).get("default")
    others = [] if default is None or is_missing(default) else [default["score"]]
    return score_format([*(trial["score"] for trial in summary["top"]), *others])


def times(number: int) -> str:
    """Return how often something was done, in words."""
    return "once" if number == 1 else f"{number} times"


def ended(by: EndedBy | None) -> str:
    """Return what ended the search, to follow its number of trials; empty where that was it, and where unknown."""
    return "" if by is None else _ENDS.get(by, "")
