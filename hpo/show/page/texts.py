"""The texts of a study's page. The trials come from a `Subject`, all other texts from the `StudyView`."""

from collections.abc import Mapping
from typing import Any

from hpo.formatting import cut_text, format_count, format_short, format_value
from hpo.report.subject import Subject
from hpo.show.lines import best_text, front_text, progress_text, question_text, report_text
from hpo.study.view.view import StudyView
from hpo.trials.score_format import score_format, shown_value
from hpo.trials.trial import Trial

_MOST_TRIALS = 100


def state(view: StudyView) -> Mapping[str, Any]:
    """Return the view, three texts (`question`, `progress` and `best`), and the point of the best trial."""
    point = view.best.point if view.best else {}
    return {
        "view": view,
        "question": question_text(view),
        "progress": progress_text(view),
        "best": "; ".join(filter(None, (best_text(view, view.best.headline if view.best else None), front_text(view)))),
        "point": [(key, cut_text(format_value(value))) for key, value in point.items()],
    }


def workers(view: StudyView, places: int) -> Mapping[str, Any]:
    """Return two values: `rows`, one row per worker; and `why_none`, the text for a page without rows.

    A row has three parts: the worker's number, its running task (None = no task), and the text of the task's last
    report. `places` is the number of workers. There are no rows if no process or program runs the study.
    """
    tasks = {task.worker: task for task in view.running}
    placed = enumerate(tasks.get(place) for place in range(places))
    rows = [(place, task, report_text(view, task) if task else "") for place, task in placed]
    why_none = "No training is running." if view.goes_on else "No process runs this study."
    return {"rows": rows if view.goes_on else [], "why_none": why_none}


def trials(view: StudyView, subject: Subject | None) -> Mapping[str, Any]:
    """Return the table of trials: the best trial, then the latest trials, the latest first; empty without trials."""
    if subject is None or not subject.trials:
        which = "Not known." if view.fault else "No trial has started yet."
        return {"which": which, "head": [], "cells": [], "marks": [], "ids": []}
    latest = subject.trials[: -_MOST_TRIALS - 1 : -1]
    won = [trial for trial in subject.trials if subject.is_winner(trial)]
    listed = [*won, *(trial for trial in latest if not subject.is_winner(trial))]
    names, keys = subject.goal.names, [key for key in subject.space.keys if any(key in t.point for t in listed)]
    compared = {name: [shown_value(trial, name, subject.goal) for trial in listed] for name in names}
    formats = {name: score_format(values) for name, values in compared.items()}
    total = len(subject.trials)
    selection = (
        f"The latest {len(latest)} of {total:,} trials" if len(latest) < total else format_count(total, "trial*")
    )
    return {
        "which": f"{selection}, the latest first{', but the best trial is at the top' if won else ''}.",
        "head": ["trial", "state", *names, *keys, "seconds"],
        "cells": [_cells(subject, trial, formats, keys) for trial in listed],
        "marks": [_mark(subject, trial) for trial in listed],
        "ids": [f"trial-{trial.number}" for trial in listed],
    }


def _cells(subject: Subject, trial: Trial, formats: Mapping[str, Any], keys: list[str]) -> list[str]:
    values = [shown_value(trial, name, subject.goal) for name in formats]
    scores = ["" if v is None else write(v) for v, write in zip(values, formats.values(), strict=True)]
    point = [format_short(trial.point[key]) if key in trial.point else "" for key in keys]
    seconds = f"{trial.seconds:.1f}" if trial.seconds else ""
    return [str(trial.number), trial.state, *scores, *point, seconds]


def _mark(subject: Subject, trial: Trial) -> str:
    if subject.is_winner(trial):
        return "winner"
    return "beyond" if trial.state == "complete" and trial.excess > 0 else trial.state


def failures(view: StudyView) -> Mapping[str, Any]:
    """Return two fields: `trials`, the latest failures, and `which`, a text with the number of all failed trials."""
    total, listed = view.num_failed, len(view.failures)
    selection = f", the latest {listed}" if 0 < listed < total else ""
    none = "Not known." if view.fault else "None."
    return {"which": f"{format_count(total, 'trial*')} failed{selection}." if total else none, "trials": view.failures}
