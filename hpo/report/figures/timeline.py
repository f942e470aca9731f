"""The figures of a search's timelines: the real one with a row per worker, and the planned one with a row per lane."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hpo.formatting import format_count
from hpo.report.figures.axes import TimeAxis, time_unit
from hpo.report.figures.style import FAILED, LEGEND, OTHER, STOPPED, WINNER, Drawn, new_figure, styled
from hpo.report.part import Missing, missing
from hpo.report.sections.cost import describe_cost, predict_seconds, worker_spans
from hpo.report.subject import Subject
from hpo.trials.trial import Trial

_MOST = 3_000
_KINDS = {
    **{"complete": OTHER, "winner": WINNER, "best trial so far": WINNER},
    **{"stopped early": STOPPED, "failed": FAILED},
}


@dataclass(frozen=True)
class _Bar:
    """A bar for one task, or for several tasks of one kind in one row that are too close to distinguish."""

    row: int
    kind: str
    start: float
    end: float
    text: str
    count: int = 1


def draw_timeline(subject: Subject) -> Drawn | Missing:
    """Draw one row per worker with one bar per task; workers that never ran at the same time share a row."""
    outcomes = [outcome for _, _, outcome in subject.outcomes]
    if not outcomes:
        return missing("no task was run by a worker")
    axis = TimeAxis.of(outcomes, subject.stretches)
    # A resumed study has new worker processes; without shared rows its bars would form a staircase.
    workers = sorted(worker_spans(outcomes).items(), key=lambda item: (item[1], item[0]))
    rows = dict(zip([worker for worker, _ in workers], _free_rows(span for _, span in workers), strict=True))
    bars = [
        _bar(subject, trial, index, rows[ran.worker], axis.at(ran.started), axis.at(ran.started) + ran.seconds)
        for trial, index, ran in subject.outcomes
    ]
    unit, name = time_unit(max(bar.end for bar in bars))
    figure, joined = _draw_bars(bars, "worker", f"{name} since the start", unit)
    paused = axis.mark_pauses(figure, unit)
    shared = " Workers that never ran at the same time share a row." if len(rows) > 1 + max(rows.values()) else ""
    return Drawn(figure, f"{format_count(len(bars), 'task*')}. {_idle_text(subject)}{joined}{shared}{paused}")


def draw_planned_timeline(subject: Subject) -> Drawn | Missing:
    """Draw one row per lane with one bar per task, over units of cost on the study's clock."""
    if subject.lanes is None:
        return missing("the order of results could not influence the search, so it did not use the study's clock")
    if not subject.clock:
        return missing("no task has ended on the study's clock")
    trials = {trial.number: trial for trial in subject.trials}
    spans = sorted(subject.clock.items(), key=lambda item: (item[1][0], item[0]))
    rows = _free_rows(span for _, span in spans)
    bars = [_bar(subject, trials[k.trial], k.task, row, *span) for (k, span), row in zip(spans, rows, strict=True)]
    figure, joined = _draw_bars(bars, "lane", "cost since the start")
    fit = predict_seconds(subject.trials)
    prediction = ""
    if fit is not None:
        prediction = f" For about two thirds of trials, cost predicts seconds within a factor of {fit['factor']:.2f}"
        prediction += (
            "." if fit["correlation"] is None else f" (correlation of the logarithms {fit['correlation']:.2f})."
        )
    return Drawn(
        figure, f"{format_count(len(bars), 'task*')} on {format_count(subject.lanes, 'lane*')}.{prediction}{joined}"
    )


def _bar(subject: Subject, trial: Trial, task: int, row: int, start: float, end: float) -> _Bar:
    if trial.outcomes[task].error:
        kind = "failed"
    elif subject.is_winner(trial):
        kind = subject.called
    else:
        kind = "stopped early" if trial.state == "stopped" else "complete"
    fresh = task - subject.layout.size
    name = subject.layout.name(task) if fresh < 0 else f"fresh_{fresh}"
    return _Bar(row, kind, start, end, f"trial {trial.number}, {name}")


def _free_rows(spans: Iterable[tuple[float, float]]) -> list[int]:
    """Return, for each span of time, the number of the first free row. The spans must be in order of start."""
    ends: list[float] = []
    rows = []
    for start, end in spans:
        row = next((place for place, busy in enumerate(ends) if busy <= start), len(ends))
        ends[row : row + 1] = [end]
        rows.append(row)
    return rows


def _idle_text(subject: Subject) -> str:
    cost = describe_cost(subject)
    share, seen = cost["idle_share"], cost["workers_seen"]
    requested = max((stretch.workers for stretch in subject.stretches), default=subject.workers)
    number = f"{requested} requested, at most {seen} at once" if requested else f"at most {seen} at once"
    when = "from the first task to the last, excluding pauses"
    return "" if share is None else f"Idle share of the workers ({number}) {when}: {share:.1%}."


def _draw_bars(bars: Sequence[_Bar], row: str, axis: str, unit: float = 1.0) -> tuple[Any, str]:
    """Return the figure, and a sentence that says which tasks share a bar; "" if each task has its own bar.

    Each row's label has the row's idle share. `row` names what a row is, such as `worker`. Times are divided by `unit`.
    """
    end = max(bar.end for bar in bars)
    gap, joined = 0.0, bars
    while len(joined) > _MOST and gap < end:
        # A gap of less than 1/2000 of the picture is not visible. With more than 3,000 rows, bars remain.
        gap = 2 * gap or end / 2_000
        joined = _join_bars(bars, gap)
    figure = new_figure()
    for kind in _KINDS:
        _add(figure, kind, [bar for bar in joined if bar.kind == kind], unit)
    busy = [0.0] * (1 + max(bar.row for bar in bars))
    for bar in bars:
        busy[bar.row] += bar.end - bar.start
    shares = [max(0.0, 1 - seconds / end) if end else 0.0 for seconds in busy]
    styled(figure, min(900, 150 + 30 * len(shares)), barmode="overlay", bargap=0.2, legend=LEGEND)
    figure.update_xaxes(title_text=axis, range=[0, 1.01 * end / unit or 1])
    ticks = [f"{row} {place}, idle {share:.0%}" for place, share in enumerate(shares)]
    figure.update_yaxes(tickvals=list(range(len(ticks))), ticktext=ticks, autorange="reversed", automargin=True)
    near = f"at most {gap / unit:.2g} apart on the axis"
    return figure, f" Tasks of one kind {near} share a bar." if len(joined) < len(bars) else ""


def _join_bars(bars: Sequence[_Bar], gap: float) -> list[_Bar]:
    """Join bars that have the same row and kind, and are at most `gap` apart; return all bars."""
    joined: dict[tuple[int, str], list[_Bar]] = {}
    for bar in bars:
        row = joined.setdefault((bar.row, bar.kind), [])
        if row and bar.start - row[-1].end <= gap:
            text = f"{row[-1].text.partition(' to ')[0]} to {bar.text}"
            row[-1] = replace(row[-1], end=max(row[-1].end, bar.end), text=text, count=row[-1].count + 1)
        else:
            row.append(bar)
    return [bar for row in joined.values() for bar in row]


def _add(figure: Any, kind: str, bars: Sequence[_Bar], unit: float) -> None:
    if bars:
        figure.add_bar(
            orientation="h",
            base=[bar.start / unit for bar in bars],
            x=[(bar.end - bar.start) / unit for bar in bars],
            y=[bar.row for bar in bars],
            customdata=[f"{bar.text} ({bar.count} tasks)" if bar.count > 1 else bar.text for bar in bars],
            hovertemplate="%{customdata}: from %{base:.4g} for %{x:.4g}<extra>" + kind + "</extra>",
            marker={"color": _KINDS[kind], "line": {"width": 0.5, "color": "white"}},
            name=kind,
        )
