"""The report as one page that opens from disk: the verdict, then the 25 fields in order with their figures."""

import math
from collections.abc import Sequence
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple

import pandas as pd

from hpo.engine.trials.trial import loss_of
from hpo.report.facts.schema.fields import FIELDS, Field, missing_values, value_at
from hpo.report.facts.schema.missing import reason_missing
from hpo.report.facts.schema.report import ReportJson
from hpo.report.figures import Drawing, Drawn
from hpo.report.pages.html import render
from hpo.report.pages.report_markdown import EXTENDED, extended_cells

_MOST_TRIALS = 500
# Fields whose values are collapsed, because figures show them.
_DRAWN = {"best_so_far", "expected_performance", "curves", "importance"}


def render_report_page(summary: ReportJson, drawings: Sequence[Drawing], trials: pd.DataFrame) -> str:
    """Return the page.

    Args:
        summary: the content of report.json.
        drawings: the figures.
        trials: the table of all trials, as trials.csv holds it.
    """
    # Functions that may fail on a summary are called in the template, where the other parts continue without them.
    return render(
        "report.html",
        summary=summary,
        groups=[(group, list(fields)) for group, fields in groupby(FIELDS, key=lambda field: field.group)],
        num_fields=len(FIELDS),
        gaps_of=_gaps,
        values_of=_values,
        extended_head=EXTENDED,
        extended_rows=lambda extension: list(map(extended_cells, extension["trials"])),
        list_trials=partial(_list_trials, summary, trials),
        drawings=drawings,
        has_figures=any(isinstance(drawing.content, Drawn) for drawing in drawings),
    )


class _Value(NamedTuple):
    """A value of a field, and whether a figure shows it too."""

    value: Any
    is_drawn: bool


class _Listed(NamedTuple):
    """The table of the trials: its title, its cells, and the class of each row."""

    which: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    marks: Sequence[str]


def _gaps(summary: ReportJson) -> list[Field]:
    return [field for field in FIELDS if missing_values(summary, field)]


def _values(summary: ReportJson, field: Field) -> list[tuple[str, _Value]]:
    """Return the values of a field by name; the name of a single value is the field's title."""
    named = []
    for key in field.keys:
        value = _arranged(key, value_at(summary, key))
        name = key.rpartition(".")[2].replace("_", " ")
        named.append((name, _Value(value, key in _DRAWN and reason_missing(value) is None)))
    return named


def _arranged(key: str, value: Any) -> Any:
    """Return a value as it is best read; of a split, with labels in their own table and without folds (field 6)."""
    if key != "data.split" or reason_missing(value) is not None:
        return value
    parts = {name: {k: v for k, v in part.items() if k != "labels"} for name, part in value["parts"].items()}
    labels = {name: part["labels"] for name, part in value["parts"].items() if part.get("labels")}
    return {k: v for k, v in value.items() if k != "folds"} | {"parts": parts, **({"labels": labels} if labels else {})}


def _list_trials(summary: ReportJson, trials: pd.DataFrame) -> _Listed:
    """Return the table of the trials, at most the 500 best."""
    columns, rows = list(trials.columns), trials.to_dict("records")
    number = len(rows)
    if number > _MOST_TRIALS:
        direction = summary["metric"]["direction"]
        losses = {r["number"]: loss_of(r["score"], direction) for r in rows if r["state"] == "complete"}
        rows.sort(key=lambda row: (losses.get(row["number"], math.inf), row["number"]))
    rows = rows[:_MOST_TRIALS]
    winner = summary["winner"].get("number")
    marks = ["winner" if row["number"] == winner else row["state"] for row in rows]
    cells = [["" if row[name] is None else _cell(row[name]) for name in columns] for row in rows]
    which = f"The {len(rows)} best of {number:,} trials" if number > len(rows) else f"All {number} trials"
    return _Listed(which, columns, cells, marks)


def _cell(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
