"""The report as one page that opens from disk: the verdict, then the 25 fields in order, with their figures."""

import html
import math
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any

import pandas as pd

from hpo.report.facts.fields import FIELDS, Field, missing_values, reason_missing, value_at
from hpo.report.figures import Drawing, Drawn
from hpo.report.pages.html import figure_place, page, table
from hpo.report.pages.values import missing_note, pairs, plain_text, shown_value
from hpo.report.part import part

_MOST_TRIALS = 500
# What figures show is folded away.
_DRAWN = {"best_so_far", "expected_performance", "curves", "importance"}


def render_page(summary: Mapping[str, Any], drawings: Sequence[Drawing], trials: pd.DataFrame) -> str:
    """Return the page.

    Args:
        summary: the content of report.json.
        drawings: the figures.
        trials: the table of all trials, as trials.csv holds it.
    """
    tops = [part(partial(make, summary), missing_note) for make in (_head, _verdict, _cautions)]
    contents = part(partial(_contents, summary), missing_note)
    body = ["<div class='columns'>", contents, "<main>", *tops, *_fields(summary, drawings, trials), "</main></div>"]
    has_figures = any(isinstance(drawing.content, Drawn) for drawing in drawings)
    return page(f"Study {summary['study']['name']}", body, has_figures, _STYLE, _SORT)


def _head(summary: Mapping[str, Any]) -> str:
    study, metric = summary["study"], summary["metric"]
    question = "" if reason_missing(study["title"]) else f"<p class='lead'>{html.escape(study['title'])}</p>"
    text = (
        f"{summary['strategy']['name']} search for the configuration with the best {metric['name']} "
        f"({metric['direction']}, {metric['aggregation']}), objective {study['objective']}, seed {study['seed']}"
    )
    return f"<h1>Study {html.escape(study['name'])}</h1>{question}<p class='lead'>{html.escape(text)}</p>"


def _verdict(summary: Mapping[str, Any]) -> str:
    winner, metric = summary["winner"], html.escape(summary["metric"]["name"])
    reason = reason_missing(winner)
    if reason is not None:
        return f"<div class='verdict'><p class='missing'>{html.escape(reason[0].upper() + reason[1:])}.</p></div>"
    values = [(key, html.escape(plain_text(value))) for key, value in winner["point"].items()]
    spread = ""
    if winner["standard_deviation"] is not None:
        low, high = winner["interval"]
        spread = (
            f" (standard deviation {winner['standard_deviation']:.4f}, n = {winner['n']}; 95 % interval {low:.4f} to "
            f"{high:.4f})"
        )
    return (
        f"<div class='verdict'><p class='big'>{metric} {winner['score']:.4f}</p>"
        f"<p>Winner: trial {winner['number']}{spread}, chosen by {html.escape(summary['chosen_by'])}.</p>"
        f"{pairs(values)}<p>{_test(summary)}</p>"
        f"<p>Train it: <code>hpo train --config {html.escape(winner['config'])}</code></p></div>"
    )


def _test(summary: Mapping[str, Any]) -> str:
    test = summary["test"]
    reason = reason_missing(test)
    if reason is not None:
        return f"No test score: {html.escape(reason)}."
    metric, times = summary["metric"]["name"], test["openings_of_these_data"]
    often = "once" if times == 1 else f"{times} times, over all studies of these data"
    return html.escape(
        f"Test {metric}: {test['metrics'][metric]:.4f} on {test['size']:,} examples (trial {test['trial']}); this test "
        f"part has been opened {often}."
    )


def _cautions(summary: Mapping[str, Any]) -> str:
    if not summary["cautions"]:
        return "<p class='note calm'>None of the checks found a reason to doubt the result.</p>"
    lines = "".join(f"<li>{html.escape(line)}</li>" for line in summary["cautions"])
    return f"<div class='note'><b>Cautions</b><ul>{lines}</ul></div>"


def _contents(summary: Mapping[str, Any]) -> str:
    lines = ["<nav><p><b>Contents</b></p>"]
    for group, fields in groupby(FIELDS, key=lambda field: field.group):
        lines.append(f"<p>{html.escape(group)}</p><ul>")
        for field in fields:
            mark = " class='gap' title='something is missing'" if missing_values(summary, field) else ""
            title = f"{field.number} {html.escape(field.title)}"
            lines.append(f"<li{mark}><a href='#field-{field.number}'>{title}</a></li>")
        lines.append("</ul>")
    gaps = sum(bool(missing_values(summary, field)) for field in FIELDS)
    note = f"<p class='missing'>{gaps} of {len(FIELDS)} fields lack something (red).</p>" if gaps else ""
    return "".join([*lines, note, "</nav>"])


def _fields(summary: Mapping[str, Any], drawings: Sequence[Drawing], trials: pd.DataFrame) -> Iterable[str]:
    for group, fields in groupby(FIELDS, key=lambda field: field.group):
        yield f"<h2>{html.escape(group)}</h2>"
        for field in fields:
            yield f"<section id='field-{field.number}'><h3>{field.number} {html.escape(field.title)}</h3>"
            values = part(partial(_values, summary, field), missing_note)
            yield values
            if field.number == 18:
                yield part(partial(_trials, summary, trials), missing_note)
            for drawing in (drawing for drawing in drawings if drawing.field == field.number):
                figure = part(partial(_figure, drawing), missing_note)
                # A reason that stands there already is not told again.
                if figure not in values:
                    yield "" if drawing.title == field.title else f"<h4>{html.escape(drawing.title)}</h4>"
                    yield f"<div>{figure}</div>"
            yield "</section>"


def _values(summary: Mapping[str, Any], field: Field) -> str:
    named = []
    for key in field.keys:
        value = _arranged(key, value_at(summary, key))
        text = shown_value(value)
        if key in _DRAWN and reason_missing(value) is None:
            text = f"<details><summary>in numbers</summary>{text}</details>"
        named.append((key.rpartition(".")[2].replace("_", " "), text))
    if len(field.keys) == 1:
        # The field's title is its name.
        return "".join(f"<div>{value}</div>" for _, value in named)
    return pairs(named)


def _arranged(key: str, value: Any) -> Any:
    """Return a value as it is best read: of a split, the labels in a table of their own, and the folds at field 6."""
    if key != "data.split" or reason_missing(value) is not None:
        return value
    parts = {name: {k: v for k, v in part.items() if k != "labels"} for name, part in value["parts"].items()}
    labels = {name: part["labels"] for name, part in value["parts"].items() if part.get("labels")}
    return {k: v for k, v in value.items() if k != "folds"} | {"parts": parts, **({"labels": labels} if labels else {})}


def _figure(drawing: Drawing) -> str:
    content = drawing.content
    if not isinstance(content, Drawn):
        return missing_note(content.reason)
    return f"{figure_place(drawing.name, content.figure)}<p class='caption'>{html.escape(content.caption)}</p>"


def _trials(summary: Mapping[str, Any], trials: pd.DataFrame) -> str:
    """Return the table of the trials, the best five hundred of more."""
    columns, rows = list(trials.columns), trials.to_dict("records")
    number = len(rows)
    if number > _MOST_TRIALS:
        sign = -1 if summary["metric"]["direction"] == "maximize" else 1
        rows.sort(key=lambda row: (math.inf if row["state"] != "complete" else sign * row["score"], row["number"]))
    rows = rows[:_MOST_TRIALS]
    winner = summary["winner"].get("number")
    marks = ["winner" if row["number"] == winner else row["state"] for row in rows]
    cells = [["" if row[name] is None else _cell(row[name]) for name in columns] for row in rows]
    which = f"The {len(rows)} best of {number:,} trials" if number > len(rows) else f"All {number} trials"
    return (
        f"<p>{which}; click a column's name to sort. With all digits: <a href='trials.csv'>trials.csv</a>.</p>"
        f"<div class='tall'>{table(columns, cells, marks, 'sortable')}</div>"
    )


def _cell(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


_STYLE = """
body { max-width: 92rem; }
.columns { display: grid; grid-template-columns: 17rem minmax(0, 1fr); gap: 2.5rem; }
nav { position: sticky; top: 1rem; align-self: start; max-height: 96vh; overflow-y: auto; font-size: 0.85rem; }
nav p { margin: 0.7rem 0 0.1rem; color: #666; }
nav ul { list-style: none; margin: 0; padding: 0; }
nav li { margin: 0.15rem 0; line-height: 1.3; }
nav a { color: #0b5394; text-decoration: none; }
nav li.gap a { color: #b3261e; }
h2 { border-bottom: 2px solid #222; padding-bottom: 0.2rem; }
h3 { font-size: 1rem; margin: 1.8rem 0 0.5rem; }
h4 { font-size: 0.9rem; margin: 1.4rem 0 0; color: #444; }
section { scroll-margin-top: 1rem; }
code { background: #f3f3f3; padding: 0.1rem 0.3rem; overflow-wrap: anywhere; }
.verdict { background: #eef5fb; border-left: 4px solid #0072b2; padding: 0.6rem 1rem; }
.verdict p { margin: 0.4rem 0; }
.verdict .big { font-size: 1.6rem; font-weight: 600; }
.note { margin: 1rem 0; }
.note ul { margin: 0.3rem 0; }
.calm { background: #f3f3f3; border-color: #9aa0a6; }
.missing { color: #b3261e; }
.caption { color: #555; font-size: 0.85rem; margin-top: 0.2rem; }
dl.pairs { display: grid; grid-template-columns: minmax(7rem, max-content) minmax(0, 1fr); gap: 0.2rem 1.2rem; }
dl.pairs { margin: 0.4rem 0; }
dl.pairs dt { font-weight: 400; color: #666; margin: 0; }
dl.pairs dl.pairs { margin: 0; }
dl.pairs dd { color: #222; overflow-wrap: anywhere; }
table { width: auto; min-width: 50%; }
.tall .wide { max-height: 36rem; overflow: auto; }
.tall th { position: sticky; top: 0; background: #fff; cursor: pointer; box-shadow: 0 2px 0 #888; }
.tall td { max-width: 30rem; overflow: hidden; text-overflow: ellipsis; }
tr.winner td { background: #fdeadf; }
tr.failed td { color: #b3261e; }
tr.stopped td { color: #777; }
summary { cursor: pointer; color: #0b5394; }
@media (max-width: 60rem) { .columns { display: block; } nav { position: static; max-height: none; } }
@media print { nav { display: none; } .columns { display: block; } .tall .wide { max-height: none; } }
"""

# Numbers by size, texts by the alphabet, what is empty last, whichever way.
_SORT = """
for (const table of document.querySelectorAll("table.sortable")) {
  [...table.tHead.rows[0].cells].forEach((head, column) => head.addEventListener("click", () => {
    const way = head.dataset.way = head.dataset.way === "1" ? "-1" : "1";
    const text = row => row.cells[column].textContent;
    const compare = (a, b) => a === "" || b === "" ? (a === "") - (b === "")
      : way * (isNaN(a) || isNaN(b) ? a.localeCompare(b) : a - b);
    table.tBodies[0].append(...[...table.tBodies[0].rows].sort((a, b) => compare(text(a), text(b))));
  }));
}
"""
