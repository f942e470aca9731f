"""The texts of a study's page: its state, cautions, workers, trials and failures, as its template takes them."""

from collections.abc import Mapping
from typing import Any

from hpo.errors import HpoError
from hpo.formatting import format_count, format_scores, format_value
from hpo.report.subject import Subject
from hpo.report.words import sentence
from hpo.show.page.reading import Seen
from hpo.study.files.folder import StudyFolder
from hpo.study.files.status import Status
from hpo.study.view.cautions import cautions_so_far
from hpo.trials.score_format import score_format, shown_value, values_in_words
from hpo.trials.trial import Trial

_MOST_TRIALS, _MOST_FAILURES, _LONGEST = 100, 20, 4_000


def lead(folder: StudyFolder) -> str:
    """Return what is searched, and how, in a line; empty where the configuration cannot be read."""
    try:
        config = folder.config()
    except HpoError:
        return ""
    return f"{config.strategy['name']} search of {config.objective}, live; this page only reads"


def state(seen: Seen) -> Mapping[str, Any]:
    """Return how far it is, the best so far, and what to do next."""
    status, subject, name = seen.status, seen.subject, seen.folder.reference
    best = subject.winner if subject else None
    go_on = seen.folder.go_on if status.state == "failed" else ""
    after = {
        "interrupted": f"`hpo resume {name}` goes on with it.",
        "open": f"`hpo ask {name}` asks for its next trial.",
        "failed": f"`{go_on}` goes on with it, once the cause is gone.",
        "ended": f"The search has ended{_by(status)}; this page stays as it is.",
    }
    return {
        "status": status,
        "best": best_text(status) if status.search_scores or not (subject and best) else _so_far_text(subject, best),
        "number": best.number if best else status.best,
        "point": [(key, format_value(value)) for key, value in best.point.items()] if best else [],
        "text": ", ".join(filter(None, (*_progress(status), str(status.holder or "")))),
        "why_none": "" if best or subject is None else _why_none(subject),
        "notice": seen.fault or status.error,
        "next": after.get(status.state),
        "has_report": (seen.folder.path / "report.html").is_file(),
    }


def _so_far_text(subject: Subject, best: Trial) -> str:
    return values_in_words(best, subject.goal, subject.scored)


def _why_none(subject: Subject) -> str:
    limits = ", ".join(map(str, subject.goal.limits))
    return f"No trial keeps the limits ({limits})." if limits and subject.scored else "No trial is complete."


def best_text(status: Status) -> str:
    """Return what the best has of the metrics, as its status says; empty while no trial is complete."""
    if not status.scores and status.trials.get("complete"):
        return "no winner" if status.state == "ended" else "none within the limits"
    write = {name: score_format([score, status.search_scores.get(name)]) for name, score in status.scores.items()}
    values, in_search = (
        ", ".join(f"{name} {write[name](score)}" for name, score in scores.items() if name in write)
        for scores in (status.scores, status.search_scores)
    )
    parts = [format_scores(values, in_search)] if values else []
    on_front = status.on_front
    return ", ".join([*parts, *([f"{format_count(on_front, 'trial*')} on the front"] if on_front is not None else [])])


def done_text(status: Status) -> str:
    """Return how much of the budget is done."""
    return f"{status.done:,} of {status.budget:,} {status.counts}" if status.budget else ""


def time_text(status: Status) -> str:
    """Return how long the search has taken."""
    minutes = status.minutes
    if minutes is None:
        return ""
    return (
        f"{60 * minutes:.0f} s" if minutes < 2 else f"{minutes:.0f} min" if minutes < 120 else f"{minutes / 60:.1f} h"
    )


def _progress(status: Status) -> list[str]:
    failed = status.trials.get("failed", 0)
    parts = [done_text(status), f"{failed:,} failed" if failed else ""]
    if status.following:
        parts.append(status.following)
    return [*parts, f"{time_text(status)} of search" if status.minutes is not None else ""]


def _by(status: Status) -> str:
    return f" (by its budget of {status.ended_by})" if status.ended_by in ("trials", "minutes") else ""


def cautions(seen: Seen) -> Mapping[str, Any]:
    """Return the reasons to doubt: of a study that has ended its report's, before that those that can be told."""
    if seen.is_over and seen.status.state == "ended":
        report = seen.folder.report()
        return {"those": [text for text in report.get("cautions", ()) if isinstance(text, str)]}
    return {"those": [] if seen.subject is None else cautions_so_far(seen.subject)}


def workers(seen: Seen) -> Mapping[str, Any]:
    """Return what each worker does."""
    if not seen.status.goes_on:
        return {"rows": [], "why_none": "No process runs this study."}
    if seen.status.following:
        return {"rows": [], "why_none": sentence(seen.status.following)}
    tasks = {task.worker: task for task in seen.tasks}
    layout = seen.subject.layout if seen.subject else None
    rows = []
    for place in range(seen.workers):
        task = tasks.get(place)
        what = "" if task is None else f"trial {task.trial}"
        if task is not None and layout is not None and layout.size > 1:
            what += f", {layout.name(task.task).replace('_', ' ')}"
        point = {} if task is None else task.point
        said = ", ".join(f"{name} {format_value(value)}" for name, value in point.items())
        has_log = task is not None and _has_log(seen, task.trial)
        rows.append({"worker": place + 1, "task": task, "what": what, "point": said, "has_log": has_log})
    return {"rows": rows, "why_none": "No training is under way."}


def trials(seen: Seen) -> Mapping[str, Any]:
    """Return the trials, the latest first, and the best before them."""
    subject = seen.subject
    if subject is None or not subject.trials:
        return {"which": "No trial has begun yet.", "head": [], "cells": [], "marks": [], "ids": []}
    latest = subject.trials[: -_MOST_TRIALS - 1 : -1]
    won = [trial for trial in subject.trials if subject.is_winner(trial)]
    shown = [*won, *(trial for trial in latest if not subject.is_winner(trial))]
    names, keys = subject.goal.names, [key for key in subject.space.keys if any(key in t.point for t in shown)]
    compared = {name: [shown_value(trial, name, subject.goal) for trial in shown] for name in names}
    formats = {name: score_format(values) for name, values in compared.items()}
    total = len(subject.trials)
    few = f"The latest {len(latest)} of {total:,} trials" if len(latest) < total else format_count(total, "trial*")
    return {
        "which": f"{few}, the latest first; the best so far stands above them." if won else f"{few}, the latest first.",
        "head": ["trial", "state", *names, *keys, "seconds"],
        "cells": [_cells(subject, trial, formats, keys) for trial in shown],
        "marks": [_mark(subject, trial) for trial in shown],
        "ids": [f"trial-{trial.number}" for trial in shown],
    }


def _cells(subject: Subject, trial: Trial, formats: Mapping[str, Any], keys: list[str]) -> list[str]:
    values = [shown_value(trial, name, subject.goal) for name in formats]
    scores = ["" if v is None else write(v) for v, write in zip(values, formats.values(), strict=True)]
    point = [f"{v:.4g}" if isinstance(v := trial.point.get(k, ""), float) else str(v) for k in keys]
    seconds = f"{trial.seconds:.1f}" if trial.seconds else ""
    return [str(trial.number), trial.state, *scores, *point, seconds]


def _mark(subject: Subject, trial: Trial) -> str:
    if subject.is_winner(trial):
        return "winner"
    return "beyond" if trial.state == "complete" and trial.excess > 0 else trial.state


def failures(seen: Seen) -> Mapping[str, Any]:
    """Return the latest failures, each with its traceback."""
    those = [trial for trial in reversed(seen.subject.trials) if trial.state == "failed"] if seen.subject else []
    few = f", the latest {_MOST_FAILURES}" if len(those) > _MOST_FAILURES else ""
    shown = [
        {
            "number": trial.number,
            "error": trial.error or "",
            "has_log": _has_log(seen, trial.number),
            "details": "\n".join(o.details[-_LONGEST:] for o in trial.outcomes.values() if o.details),
        }
        for trial in those[:_MOST_FAILURES]
    ]
    return {"which": f"{format_count(len(those), 'trial*')} failed{few}." if those else "None.", "those": shown}


def _has_log(seen: Seen, trial: int) -> bool:
    return any(seen.folder.logs_dir.glob(seen.folder.log_path(trial, "*").name))
