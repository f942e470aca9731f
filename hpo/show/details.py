"""Shows the view of one study or one trial in a terminal, with one or more lines for each field that has a value."""

import shutil
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hpo.errors import printable
from hpo.formatting import cut_text, format_duration, format_time, format_value
from hpo.machine import Host
from hpo.show.lines import best_text, format_values, front_text, progress_text, question_text, report_text
from hpo.study.files.folder import short_path
from hpo.study.view.one_trial import TrainingDetails, TrialDetails
from hpo.study.view.view import StudyView, values_text
from hpo.trials.places import amount_text

_MOST_COLUMNS, _MOST_LINES = 100, 3
# The column where texts start; it is further to the right if a name is longer.
_COLUMN = 12
_BLOCKS, _PLAIN = "▁▂▃▄▅▆▇█", "_.-~=+*#"
_CURVE = 40  # width of a learning curve
_MOST_VALUES, _MOST_CAUTIONS, _MOST_FAILURES, _MOST_LOGS, _MOST_DETAILS = 10, 5, 3, 3, 4

# Pairs of a name and its text.
_Entries = Iterator[tuple[str, str]]


def details_text(shown: StudyView | TrialDetails) -> str:
    """Return a study or a trial as text for a terminal."""
    last, entries = "", [*(_study_entries(shown) if isinstance(shown, StudyView) else _trial_entries(shown))]
    column = max([_COLUMN, *(len(what) + 2 for what, _ in entries)])
    lines: list[str] = []
    for what, text in entries:
        lines += _lines("" if what == last else what, text, column)
        last = what
    return "\n".join(lines)


def _lines(what: str, text: str, column: int) -> Iterator[str]:
    """Yield the lines of an entry, at most three.

    The lines have only printable characters, because another user may have written `text`.
    """
    columns = min(shutil.get_terminal_size((_MOST_COLUMNS, 0)).columns, _MOST_COLUMNS) - column
    lines = textwrap.wrap(
        printable(text.lstrip()),
        max(columns, column),
        initial_indent=" " * (len(text) - len(text.lstrip())),
        subsequent_indent="    ",
        max_lines=_MOST_LINES,
        placeholder=" ...",
        break_on_hyphens=False,
    )
    for line in lines:
        yield f"{what:<{column}}{line}".rstrip()
        what = ""


def _study_entries(view: StudyView) -> _Entries:
    copied = f", as copied to the mirror at {view.copied}" if view.copied else ""
    yield "study", f"{view.study}: {view.says}{copied}"
    if view.fault and view.fault != view.error:
        yield "fault", view.fault
    if searches := question_text(view):
        yield "searches", searches
    if view.user:
        yield "user", view.user
    if view.budget:
        yield "done", progress_text(view)
    if (best := view.best) is not None:
        label = "winner" if view.state == "ended" else "best"
        yield label, "; ".join(filter(None, (best_text(view), front_text(view))))
        yield from ((label, line) for line in _point_lines(best.point, best.default))
    elif view.why_none:
        yield "best", f"none: {view.why_none}"
    if view.test:
        yield "test", ", ".join(f"{name} {text}" for name, text in view.test_texts.items())
    for key, value in view.tags.items():
        yield "tags", f"{key} = {value}"
    for task in view.running:
        place = f"worker {task.worker}: trial {task.trial}, {task.task}, {format_duration(task.seconds)} so far"
        ago = format_duration(task.seconds_silent)
        reported = f"; {report_text(view, task)}, {ago} ago" if task.point else ", no report yet"
        yield "running", f"{place}{reported}{f'; {task.where}' if task.where else ''}"
    for failure in view.failures[:_MOST_FAILURES]:
        yield "failed", f"trial {failure.trial}: {failure.error}"
        yield from (("failed", f"  printed: {short_path(path)}") for path in failure.logs[:_MOST_LOGS])
    for caution in view.cautions[:_MOST_CAUTIONS]:
        yield "cautions", caution
    if (more := len(view.cautions) - _MOST_CAUTIONS) > 0:
        yield "cautions", f"and {more} more in the report"
    width = max((len(step.command) for step in view.next), default=0)
    for step in view.next:
        yield "next", f"{step.command:<{width}}   {step.does}"


def _trial_entries(trial: TrialDetails) -> _Entries:
    values = values_text(trial.texts, trial.search_texts)
    if not values and trial.score is not None:
        values = f"{trial.metric} {format_value(trial.score)}"
    score = f", {values}" if values else ""
    beyond = f", relative excess over the limits {trial.excess:.3g}" if trial.excess else ""
    yield "trial", f"{trial.trial} of study {trial.study}: {trial.state}{score}{beyond}"
    yield from (("point", line) for line in _point_lines(trial.point, trial.default, len(trial.point)))
    if trial.retry_of is not None:
        yield "retry", f"of trial {trial.retry_of}, which failed"
    if trial.amount is not None:
        further = f", continuing trial {trial.continues}" if trial.continues is not None else ""
        far = trial.reached if trial.state == "complete" else None
        yield "trained", f"{amount_text(trial.amount, far).removeprefix(', ').removeprefix('trained ')}{further}"
    if trial.started is not None:
        host = f" on {trial.host}" if trial.host else ""
        yield "ran", f"from {format_time(trial.started)}{host}, {format_duration(trial.seconds)} of training"
    if trial.stopped:
        yield "stopped", trial.stopped
    if trial.error:
        yield "failed", trial.error
    for task in trial.tasks:
        yield from _task_entries(task, trial.metric)


def _task_entries(task: TrainingDetails, metric: str) -> _Entries:
    name, score = task.task, f" {task.score:.4g}" if task.score is not None else ""
    place = f", {_where(task)}" if task.process else ""
    attempt = f", attempt {task.attempt}" if (task.attempt or 1) > 1 else ""
    seconds = f", {format_duration(task.seconds)}" if task.seconds else ""
    yield name, f"{task.state}{score}{seconds}, seed {task.seed}{place}{attempt}"
    if len(values := [value for _, value in task.curve]) > 1:
        (first, start), (last, end) = task.curve[0], task.curve[-1]
        yield name, f"  {curve_chart(values)}  {start:.4g} at {first:g}, {end:.4g} at {last:g}"
    elif task.point:
        yield name, f"  {format_values(task.point)}"
    others = {key: value for key, value in {**task.metrics, **task.notes}.items() if key != metric}
    yield from ((name, f"  {line}") for line in _point_lines(others, None, len(others)))
    # Leave out the last output, which follows the traceback, because the log has it.
    for line in (task.details or "").partition("\nprinted last:\n")[0].splitlines()[-_MOST_DETAILS:]:
        yield name, f"  {line}"
    for file in task.files:
        yield name, f"  {short_path(file)}"
    if task.log:
        yield name, f"  {short_path(task.log)}:"
        yield from ((name, f"    {line}") for line in task.printed_last)


def _where(task: TrainingDetails) -> str:
    """Return the process of a training as text, with its machine and GPUs if the machine is known."""
    if task.host and task.process:
        return str(Host(task.host, task.process, task.gpus))
    return f"process {task.process}"


def _point_lines(
    point: Mapping[str, Any], default: Mapping[str, Any] | None, most: int = _MOST_VALUES
) -> Iterator[str]:
    """Yield a line for each value of a point. If the value differs from its default, the line also shows the default.

    After `most` values, yield a line with the number of the remaining values.
    """
    texts = {key: cut_text(format_value(value)) for key, value in [*point.items()][:most]}
    width, wide = (max(map(len, column), default=0) for column in (texts, texts.values()))
    for key, text in texts.items():
        usual = (default or {}).get(key, point[key])
        other = f"   (default {cut_text(format_value(usual))})" if usual != point[key] else ""
        yield f"  {key:<{width}} = {text:<{wide if other else 0}}{other}"
    if len(point) > most:
        yield f"  and {len(point) - most} more"


def curve_chart(values: Sequence[float], columns: int = _CURVE) -> str:
    """Return a curve as a line of at most `columns` characters, scaled from its lowest to its highest value."""
    signs = _BLOCKS if _can_print(_BLOCKS) else _PLAIN
    step = max(1.0, (len(values) - 1) / (columns - 1))
    sample = [values[round(place * step)] for place in range(int((len(values) - 1) / step) + 1)]
    low, high = min(sample), max(sample)
    return "".join(
        signs[round((value - low) / (high - low) * (len(signs) - 1)) if high > low else 0] for value in sample
    )


def _can_print(text: str) -> bool:
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True
