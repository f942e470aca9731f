"""A study's view as lines of text, for terminals, scripts and notebooks."""

import html
from collections.abc import Iterator, Mapping

from hpo.errors import printable
from hpo.formatting import cut_text, format_count, format_duration, format_size, format_time, format_value
from hpo.study.files.folder import short_path
from hpo.study.view.view import StudyView, TaskView
from hpo.trials.score_format import score_format

# Most trials of the front that a line lists.
_MOST = 10


def summary_lines(view: StudyView) -> Iterator[str]:
    """Yield the study's state and its result: the trial count, the winner (or why there is none), and the report."""
    yield from map(printable, (f"study {view.study}: {view.says}", *_outcome(view)))


def summary_html(view: StudyView) -> str:
    """Return the summary as HTML for a notebook: the winner with its point, or why there is none."""
    texts = (f"{view.study}: {view.says}", _counts_text(view), best_text(view))
    head, *lines = map(html.escape, filter(None, texts))
    point = {} if view.best is None else view.best.point
    rows = [(html.escape(key), html.escape(format_value(value))) for key, value in point.items()]
    cells = "".join(f"<tr><td>{key}</td><td>{value}</td></tr>" for key, value in rows)
    return "<br>".join([f"<b>{head}</b>", *lines, *([f"<table>{cells}</table>"] if cells else [])])


def _counts_text(view: StudyView) -> str:
    return f"{done_text(view)}, {_failed_text(view)}" if view.budget else ""


def _failed_text(view: StudyView) -> str:
    retried = f" ({view.num_retried} retried)" if view.num_retried else ""
    return f"{view.num_failed} failed{retried}"


def next_lines(view: StudyView) -> Iterator[str]:
    """Yield the possible next commands."""
    width = max((len(step.command) for step in view.next), default=0)
    for place, step in enumerate(view.next):
        yield printable(f"{'' if place else 'next:':<8}{step.command:<{width}}   {step.does}")


def question_text(view: StudyView) -> str:
    """Return a line with the study's metrics, strategy, space and objective; empty if the view has no objective."""
    if not (view.objective and view.metrics):
        return ""
    points = f", {view.points:,} points" if view.points else ""
    data = f"; data {view.data}" if view.data else ""
    limits = f", {' and '.join(view.limits)}" if view.limits else ""
    goal = ", ".join(f"{name} ({direction})" for name, direction in view.metrics.items())
    scales = f" at {view.scales} scales" if view.scales else ""
    space = f"{format_count(view.hyperparameters or 0, 'hyperparameter*')}{scales}{points}"
    return f"{goal}{limits}; {view.strategy} over {space}; objective {view.objective}{data}"


def best_text(view: StudyView, values: str | None = None) -> str:
    """Return the winner or the best trial so far, with its values; if there is no best trial, return the reason."""
    best = view.best
    if best is None:
        return view.why_none or ""
    chosen = f": {view.why_chosen}" if view.why_chosen else ""
    return f"trial {best.trial}, {values or best.values}{best.amount_text}{chosen}"


def front_text(view: StudyView) -> str:
    """Return the number of trials on the Pareto front as text; empty with one metric, or if the front is empty."""
    return f"{format_count(view.on_front, 'trial*')} on the front" if view.on_front else ""


def done_text(view: StudyView) -> str:
    """Return the used and the total budget as text; empty if the budget is unknown."""
    return f"{view.done:,} of {view.budget:,} {view.counts}" if view.budget else ""


def progress_text(view: StudyView) -> str:
    """Return as text the used budget, the number of trials in each state, the search's duration, and `untried_line`."""
    counts = {state: number for state, number in view.trials.items() if number and state != "running"}
    states = [_failed_text(view) if state == "failed" else f"{number} {state}" for state, number in counts.items()]
    if unfinished := view.trials.get("running", 0):
        state = {"running": "running", "open": "open"}.get(view.state, "interrupted")
        states.append(f"{unfinished} {state}")
    done = ": ".join(filter(None, (done_text(view), ", ".join(states))))
    minutes = f"{format_duration(60 * view.minutes)} of search" if view.minutes is not None else ""
    return "; ".join(filter(None, (done, minutes, untried_line(view))))


def untried_line(view: StudyView) -> str:
    """Return a line with the number of added points without a trial, and the number of trials that wait for a retry.

    The line leaves out a number that is 0, and is empty if both are 0.
    """
    return f"{view.untried_text} not tried yet" if view.untried_text else ""


def report_text(view: StudyView, task: TaskView) -> str:
    """Return the epoch and the study's metrics from a training's latest report, as text.

    If the report has neither an epoch nor a metric of the study, return all values of the report.
    """
    point = {name: value for name, value in task.point.items() if name in ("epoch", *view.metrics)}
    return format_values(point or task.point)


def format_values(values: Mapping[str, float]) -> str:
    """Return a line with the name and the value of each entry."""
    return ", ".join(f"{name} {value:.4g}" for name, value in values.items())


def list_texts(view: StudyView) -> dict[str, str]:
    """Return the cells of a study's row in a list of studies, by column."""
    process, best, metric = view.process, view.best, view.metric or ""
    since = f" ({process.process}, since {format_time(process.since)[11:16]})" if process else ""
    return {
        "study": view.study,
        "state": f"{view.state}{since}{f', {view.following}' if view.following else ''}",
        "done": f"{view.done}/{view.budget}" if view.budget else "",
        "best": best.texts.get(metric, "") if best else _none_text(view),
        "expected": best.expected_texts.get("value", "") if best else "",
        "metric": f"{metric} ({(view.direction or '')[:3]})" if metric else "",
        "strategy": view.strategy or "",
        "data": view.data or "",
        "test": view.test_texts.get(metric, ""),
        "size": "" if view.size is None else format_size(view.size),
        "user": view.user or "",
        "date": "" if view.begun is None else format_time(view.begun)[:16],
    }


def _none_text(view: StudyView) -> str:
    """Return the text that replaces a missing best score; empty if no trial is complete."""
    if not view.trials.get("complete"):
        return ""
    return "no winner" if view.state == "ended" else "none so far"


def _outcome(view: StudyView) -> Iterator[str]:
    if view.state == "unreadable":
        return
    if text := _counts_text(view):
        yield text
    if view.finalists:
        yield _finalists_text(view)
    if len(view.metrics) > 1 and view.best is not None:
        numbers = ", ".join(str(each.trial) for each in view.front[:_MOST])
        more = ", ..." if len(view.front) > _MOST else ""
        yield f"front: {format_count(view.on_front or 0, 'trial*')}, by {view.metric}: {numbers}{more}"
    if view.best is not None:
        yield f"{'winner' if view.state == 'ended' else 'best so far'}: {best_text(view)}"
        yield from (f"  {key} = {cut_text(format_value(value))}" for key, value in view.best.point.items())
    elif view.why_none:
        yield f"no winner: {view.why_none}"
    if text := untried_line(view):
        yield text
    if (page := view.files.get("report.html")) is not None:
        yield f"report: {short_path(page)}"


def _finalists_text(view: StudyView) -> str:
    scores = view.finalists
    if all(score is None for score in scores.values()):
        return f"all {len(scores)} finalists failed on fresh seeds, so scores from the search decide"
    write = score_format(scores.values())
    texts = (f"trial {number} {'failed' if score is None else write(score)}" for number, score in scores.items())
    return f"the winner is chosen by the finalists' scores on fresh seeds ({view.metric}: {', '.join(texts)})"
