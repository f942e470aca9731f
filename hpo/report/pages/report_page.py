"""The report as Markdown, and as one self-contained page: the winner, figures, trials, and the 25 required fields."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any

import pandas as pd

from hpo.report.figures import Drawing, Drawn
from hpo.report.pages.html import render
from hpo.report.part import is_missing, markdown_lines, reason_missing
from hpo.report.sections.fields import FieldStatus, value_at
from hpo.report.sections.goal import front_of, names_of
from hpo.report.sections.report import SECTIONS, ReportJson, read_section
from hpo.report.sections.study import heading
from hpo.report.sections.winner import winner_view
from hpo.trials.score_format import score_format
from hpo.trials.table import column_of
from hpo.trials.trial import rank

_MOST_TRIALS = 500
_FRONT_COLUMNS = ("is_on_front", "excess")


def render_report_markdown(report: ReportJson) -> str:
    """Return the report as Markdown, for sites that show Markdown, such as GitHub."""
    title, name = heading(report["study"])
    lines = [f"# {title}", "", *([name, ""] if name else ())]
    for section in SECTIONS:
        blocks = read_section(section, report)
        lines += [*([f"## {section.title}", ""] if section.title and blocks else ()), *markdown_lines(blocks)]
    return "\n".join(lines)


def render_report_page(
    summary: ReportJson, drawings: Sequence[Drawing], trials: pd.DataFrame, order: Sequence[int] = ()
) -> str:
    """Return the report as an HTML page.

    Args:
        summary: the content of report.json.
        drawings: the figures.
        trials: the content of trials.csv.
        order: the numbers of the complete trials, the best first.
    """
    # Pass functions instead of their results: if one fails in the template, the rest of the page is still rendered.
    return render(
        "report.html",
        summary=summary,
        heading=heading,
        winner_view=winner_view,
        read=lambda page: [block for each in SECTIONS if each.page == page for block in read_section(each, summary)],
        pictures=[(section, list(group)) for section, group in groupby(drawings, key=lambda drawing: drawing.section)],
        # Incomplete fields come first.
        fields=sorted(summary["fields"], key=lambda field: not field["missing"]),
        values_of=_values,
        list_trials=partial(_list_trials, summary, trials, order),
        has_figures=any(isinstance(drawing.content, Drawn) for drawing in drawings),
    )


def _values(summary: ReportJson, field: FieldStatus) -> list[tuple[str, Any]]:
    """Return, for each key of a field, the key's last part as words, and the key's value in readable form."""
    return [(key.rpartition(".")[2].replace("_", " "), _arrange(key, value_at(summary, key))) for key in field["keys"]]


def _arrange(key: str, value: Any) -> Any:
    """Return a value in readable form. For `data.split`, put the labels in their own table, and leave out the folds."""
    if key != "data.split" or reason_missing(value) is not None:
        return value
    parts = {name: {k: v for k, v in part.items() if k != "labels"} for name, part in value["parts"].items()}
    labels = {name: part["labels"] for name, part in value["parts"].items() if part["labels"]}
    return {k: v for k, v in value.items() if k != "folds"} | {"parts": parts, **({"labels": labels} if labels else {})}


def _list_trials(summary: ReportJson, trials: pd.DataFrame, order: Sequence[int]) -> dict[str, Any]:
    """Return the table of at most 500 trials for the template: the best first, and trials without a score last."""
    space = summary["space"]
    # With several metrics or limits, hyperparameters may have the names of the report's own columns.
    own = [name for name in _FRONT_COLUMNS if f"space.{name}" in trials]
    keys = [] if is_missing(space) else [column_of(each["key"], own) for each in space]
    of_front = [name for name in _front_columns(summary, trials) if name not in keys]
    first = ["number", "score", *of_front, "state", *keys]
    columns = [*first, *(name for name in trials.columns if name not in first)]
    rows = trials.to_dict("records")
    columns = [name for name in columns if name in first or _has_content(name, rows)]
    number, winner = len(rows), summary["winner"].get("number")
    places = {trial: place for place, trial in enumerate(order)}

    def place(row: Mapping[Any, Any]) -> tuple[bool, int, tuple[int, int, float, float, int]]:
        """Return a row's sort key: first the winner, then the trials as listed in `order`, then all other trials."""
        after = rank(row.get("amount"), math.inf, row["number"])
        return row["number"] != winner, places.get(row["number"], len(places)), after

    rows.sort(key=place)
    rows = rows[:_MOST_TRIALS]
    marks = [_mark(row, winner, of_front) for row in rows]
    formats = {name: score_format(trials[name]) for name in ("score", *of_front) if name not in _FRONT_COLUMNS}
    cells = [[_cell(row[name], formats.get(name, "{:.4g}".format)) for name in columns] for row in rows]
    which = f"The {len(rows)} best of {number:,} trials" if number > len(rows) else f"All {number} trials"
    ids = [f"trial-{row['number']}" for row in rows]
    return {"which": which, "columns": columns, "cells": cells, "marks": marks, "ids": ids}


def _has_content(column: str, rows: Sequence[Mapping[Any, Any]]) -> bool:
    """Return whether a column has any value; the column `round` counts as empty if all its values are 0."""
    nothing = (None, "", 0) if column == "round" else (None, "")
    return any(row[column] not in nothing for row in rows)


def _front_columns(summary: ReportJson, trials: pd.DataFrame) -> list[str]:
    """Return the names of the front's columns; an empty list if the report has no front.

    The columns are: each metric except the first, each value that has a limit and is no metric, and `_FRONT_COLUMNS`.
    Columns that `trials` lacks are left out.
    """
    front = front_of(summary)
    if front is None:
        return []
    names = [f"metric.{name}" if f"metric.{name}" in trials else name for name in names_of(front)[1:]]
    return [name for name in (*names, *_FRONT_COLUMNS) if name in trials]


def _mark(row: Mapping[Any, Any], winner: object, of_front: Collection[str]) -> str:
    if row["number"] == winner:
        return "winner"
    if "is_on_front" in of_front and row["is_on_front"] is True:
        return "front"
    return "beyond" if "excess" in of_front and row["excess"] else str(row["state"])


def _cell(value: Any, number: Callable[[float], str]) -> str:
    return "" if value is None else number(value) if isinstance(value, float) else str(value)
