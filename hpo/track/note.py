"""The note on a study's page in a tracker: the winner and how to reproduce it, the search, and up to five best trials.

The note ends with the latest notes that users wrote.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from hpo.formatting import format_count, format_short
from hpo.objectives.outside import OUTSIDE
from hpo.report.part import markdown_table
from hpo.study.view.view import StudyView, TrialView
from hpo.track.views import FRONT, RUN_ID, TABLE, escape, trial_page
from hpo.trials.places import to_amount

# A tracker stores some thousand characters; with these limits a note has fewer than 5,000 (tested).
_COLUMNS = 8
_CELL = 24
_POINT = 600
_CHOICE = 200
_NOTES = 3


def study_note(view: StudyView) -> str:
    """Return the note for a study's page as Markdown; its addresses are placeholders, which the tracker replaces.

    The most important lines come first, because trackers show only the first lines of a note.
    """
    again = [] if view.objective == OUTSIDE else [_reproduction_lines(view)]
    parts = (_winner_lines(view), _search_lines(view), _leaders_table(view), *again, _note_lines(view))
    return "\n".join(line for part in parts for line in [*part, ""]).rstrip() + "\n"


def _winner_lines(view: StudyView) -> Iterator[str]:
    best, called = view.best, "Winner" if view.state == "ended" else "Best so far"
    if best is None:
        is_begun = any(count for state, count in view.trials.items() if state != "running")
        reason = escape(_cut(view.why_none or "", _POINT))
        yield f"**No winner:** {reason}." if is_begun else "**No trial is finished yet.**"
        return
    trial, over = f"[trial {best.trial}]({trial_page(best.trial)})", ""
    if best.trainings is not None and best.trainings > 1:
        over = f" over {best.trainings} trainings"
    # The page shows a few lines, only three with MLflow's assistant.
    again = f"again with `hpo reproduce {view.reference}`"
    yield f"**{called}: {trial}, {_values(view, best)}**{over}{best.amount_text}; {again}"
    yield from ("", _point(best.point))
    if view.why_chosen is not None:
        size, choice = format_count(view.on_front or 0, "trial*"), _cut(view.why_chosen, _CHOICE)
        yield from ("", f"Chosen as {escape(choice)}. The Pareto front: [{size}]({FRONT}).")
    yield from _limits_lines(view)
    if view.metric in view.test_texts:
        tested = {name: view.test_texts[name] for name in _first_metrics(best.texts) if name in view.test_texts}
        shown = ", ".join(f"{_name(view, name)}: **{text}**" for name, text in tested.items())
        yield from ("", f"Test {shown} (trial {view.test_trial}).")


def _values(view: StudyView, best: TrialView) -> str:
    """Return the text `values_with_spread` of the trial `best`, with Markdown in the metrics' names escaped."""
    texts, in_search = (
        {_name(view, name): text for name, text in _first_metrics(each).items()}
        for each in (best.texts, best.search_texts)
    )
    return replace(best, texts=texts, search_texts=in_search).values_with_spread


def _limits_lines(view: StudyView) -> Iterator[str]:
    complete = view.trials.get("complete")
    if view.limits and complete:
        # MLflow shows no table below an escaped <.
        texts = (limit.replace("<=", "≤").replace(">=", "≥") for limit in view.limits[:_COLUMNS])
        limits = ", ".join(escape(_cut(text, 2 * _CELL)) for text in texts)
        yield from (
            "",
            f"Limits: {limits}; kept by {view.within_limits} of {format_count(complete, 'complete trial*')}.",
        )


def _search_lines(view: StudyView) -> Iterator[str]:
    others = [f"{count} {state}" for state in ("failed", "stopped") if (count := view.trials.get(state))]
    done = f"{view.done} of {view.budget} {view.counts}" + (f" ({', '.join(others)})" if others else "")
    when = " when this was written" if view.state == "running" else ""
    each = [(_name(view, name), way) for name, way in itertools.islice(view.metrics.items(), _COLUMNS)]
    what = f"Metrics: {', '.join(f'{name} ({way}d)' for name, way in each)}; each score is the mean"
    if len(each) == 1:
        what = f"Metric: {each[0][0]} ({each[0][1]}d); each score is the mean"
    searched = format_count(view.hyperparameters or 0, "hyperparameter*")
    scales = f" at {view.scales} scales" if view.scales else ""
    yield (
        f"Search by `{view.strategy}` in {searched}{scales}, seed {view.seed}: [{done}]({TABLE}){when}. {what} "
        f"over {_trainings(view)}. {_data(view)} The tab Model metrics of this run has charts of every trial's score "
        "and of the best score so far."
    )


def _trainings(view: StudyView) -> str:
    folds = f"{view.folds} folds" if (view.folds or 1) > 1 else "one hold-out split"
    return folds + (f" times {view.repeats} seeds" if (view.repeats or 1) > 1 else "")


def _data(view: StudyView) -> str:
    if not view.parts:
        return f"The objective `{view.objective}` brings its own data."
    parts = [f"{name} {size:,}" for name, size in view.parts.items()]
    return f"Data: {escape(view.data or 'unnamed')} ({', '.join(parts)})."


def _leaders_table(view: StudyView) -> Iterator[str]:
    leaders = view.leaders
    if not leaders:
        return
    metrics = [*_first_metrics(leaders[0].texts)]
    keys = [*dict.fromkeys(key for each in leaders for key in each.point)][: _COLUMNS + 1 - len(metrics)]
    lasts = [key.rpartition(".")[2] for key in keys]
    names = lasts if len(set(lasts)) == len(lasts) else keys
    first = f"{len(leaders)} of the front" if len(view.metrics) > 1 else "best trials"
    head = [first, *(_with_space(_name(view, name)) for name in metrics), *(_with_space(_cell(name)) for name in names)]
    yield from markdown_table(head, (_best_row(each, keys) for each in leaders))


def _best_row(trial: TrialView, keys: Iterable[str]) -> list[str]:
    """Return a trial's row: a link, the metrics, and the point's values for `keys`.

    The metrics are from the search, so that all rows are comparable.
    """
    values = [format_short(trial.point[key]) if key in trial.point else "" for key in keys]
    score, *others = _first_metrics(trial.search_texts or trial.texts).values()
    cells = [score + to_amount(trial.amount, trial.reached), *others, *map(_cell, values)]
    return [f"[{trial.trial}]({trial_page(trial.trial)})", *map(_with_space, cells)]


def _reproduction_lines(view: StudyView) -> Iterator[str]:
    # MLflow leaves no space below a table.
    text = "To reproduce the winner from MLflow (first command) or from the study's folder (second command):"
    yield from ("&nbsp;", "", text, "")
    yield from ("```", f"hpo reproduce runs:/{RUN_ID}", f"hpo reproduce {view.reference}", "```")


def _note_lines(view: StudyView) -> Iterator[str]:
    """Yield a line for each of the latest notes that users wrote; at most `_NOTES` lines."""
    for note in view.notes[-_NOTES:]:
        yield f"- {note.time[:10]} {_cell(note.user)}: {escape(_cut(note.text, _CHOICE))}"


def _point(point: Mapping[str, Any]) -> str:
    text = ", ".join(f"{key}={format_short(value)}" for key, value in point.items())
    return f"`{_cut(text, _POINT).replace('`', chr(39))}`"


def _with_space(text: str) -> str:
    """Return a cell with leading space, because MLflow's tables have no space between columns."""
    return f"&emsp;{text}"


def _first_metrics(texts: Mapping[str, str]) -> dict[str, str]:
    """Return as many metrics as the note's table has room for, the leading metric first."""
    return dict(itertools.islice(texts.items(), _COLUMNS))


def _name(view: StudyView, name: str) -> str:
    return escape(name) if name == view.metric else _cell(name)


def _cell(text: str) -> str:
    return escape(_cut(text, _CELL))


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"
