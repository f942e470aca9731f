"""The timeline of each worker's tasks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hpo.engine.trials.trial import Outcome
from hpo.report.facts.sections.cost import describe_cost
from hpo.report.facts.subject import Subject
from hpo.report.facts.words import counted
from hpo.report.figures.canvas.clock import Clock
from hpo.report.figures.canvas.drawn import Drawn
from hpo.report.figures.canvas.look import BLACK, ORANGE, SKY, YELLOW, new_figure, styled, time_unit
from hpo.report.part import Absent

_MOST = 3_000
_KINDS = {"complete": SKY, "winner": ORANGE, "stopped early": YELLOW, "failed": BLACK}


@dataclass(frozen=True)
class Bar:
    """One task, or several of one kind on one lane that a picture cannot distinguish.

    Attributes:
        lane: its row, from 0.
        kind: `complete`, `winner`, `stopped early` (its trial was stopped) or `failed`.
        start, end: seconds on the search's clock.
        text: its label.
        count: the number of tasks.
    """

    lane: int
    kind: str
    start: float
    end: float
    text: str
    count: int = 1


def draw_timeline(subject: Subject) -> Drawn | Absent:
    """Draw one lane per worker with one bar per task."""
    outcomes = [outcome for _, _, outcome in subject.outcomes]
    if not outcomes:
        return Absent("no task was run by a worker")
    clock = Clock.of(outcomes)
    lanes = _lanes(outcomes)
    bars = [
        Bar(
            lanes[outcome.worker],
            _kind(subject, trial.number, trial.state, outcome),
            clock.at(outcome.started),
            clock.at(outcome.started) + outcome.seconds,
            f"trial {trial.number}, {subject.layout.name(index)}",
        )
        for trial, index, outcome in subject.outcomes
    ]
    end = max(bar.end for bar in bars)
    unit, name = time_unit(end)
    merged, gap = _merged(bars, end)
    figure = new_figure()
    for kind, colour in _KINDS.items():
        _add(figure, kind, colour, [bar for bar in merged if bar.kind == kind], unit)
    clock.mark(figure, unit)
    idle = _idle_by_lane(bars, end)
    styled(
        figure,
        min(900, 150 + 30 * len(idle)),
        barmode="overlay",
        bargap=0.2,
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
    )
    figure.update_xaxes(title_text=f"{name} since the start", range=[0, 1.01 * end / unit or 1])
    ticks = [f"worker {lane + 1}, idle {share:.0%}" for lane, share in enumerate(idle)]
    figure.update_yaxes(tickvals=list(range(len(ticks))), ticktext=ticks, autorange="reversed", automargin=True)
    close = f" Tasks less than {gap:.2g} s apart are one bar." if len(merged) < len(bars) else ""
    replaced = " Workers that never ran at the same time share a lane." if len(lanes) > len(idle) else ""
    return Drawn(figure, f"{counted(len(bars), 'task*')}. {_idle_text(subject)}{close}{replaced}{clock.note}")


def _idle_text(subject: Subject) -> str:
    # The same number as in report.json; it does not depend on GPUs.
    cost = describe_cost(subject.trials, subject.workers, 0.0)
    share, seen = cost["idle_share"], cost["workers_seen"]
    number = f"{subject.workers} asked for, {seen} seen" if subject.workers else f"{seen} seen"
    return "" if share is None else f"Idle share of the workers ({number}), first start to last end: {share:.1%}."


def _kind(subject: Subject, number: int, state: str, outcome: Outcome) -> str:
    if outcome.error:
        return "failed"
    if subject.winner is not None and number == subject.winner.number:
        return "winner"
    return "stopped early" if state == "stopped" else "complete"


def _lanes(outcomes: Sequence[Outcome]) -> Mapping[int, int]:
    """Return the lane of each worker: one that is free from its first task to its last.

    A resumed study has new processes, which would make a staircase if workers did not share lanes.
    """
    spans: dict[int, tuple[float, float]] = {}
    for outcome in outcomes:
        start, end = spans.get(outcome.worker, (outcome.started, 0.0))
        spans[outcome.worker] = min(start, outcome.started), max(end, outcome.started + outcome.seconds)
    ends: list[float] = []
    lanes: dict[int, int] = {}
    for worker, (start, end) in sorted(spans.items(), key=lambda item: (item[1], item[0])):
        lane = next((place for place, busy in enumerate(ends) if busy <= start), len(ends))
        ends[lane : lane + 1] = [end]
        lanes[worker] = lane
    return lanes


def _merged(bars: Sequence[Bar], end: float) -> tuple[list[Bar], float]:
    """Return at most as many bars as can be drawn, and the longest gap between tasks that were merged."""
    gap = 0.0
    merged = list(bars)
    while len(merged) > _MOST:
        # A gap of less than 1/2000 of the picture is not visible on a screen.
        gap = 2 * gap or end / 2_000
        merged = _joined(bars, gap)
    return merged, gap


def _joined(bars: Sequence[Bar], gap: float) -> list[Bar]:
    joined: dict[tuple[int, str], list[Bar]] = {}
    for bar in bars:
        row = joined.setdefault((bar.lane, bar.kind), [])
        if row and bar.start - row[-1].end <= gap:
            first = row[-1].text.partition(" to ")[0]
            row[-1] = replace(
                row[-1], end=max(row[-1].end, bar.end), text=f"{first} to {bar.text}", count=row[-1].count + 1
            )
        else:
            row.append(bar)
    return [bar for row in joined.values() for bar in row]


def _idle_by_lane(bars: Sequence[Bar], end: float) -> list[float]:
    busy = [0.0] * (1 + max(bar.lane for bar in bars))
    for bar in bars:
        busy[bar.lane] += bar.end - bar.start
    return [max(0.0, 1 - seconds / end) if end else 0.0 for seconds in busy]


def _add(figure: Any, kind: str, colour: str, bars: Sequence[Bar], unit: float) -> None:
    if bars:
        figure.add_bar(
            orientation="h",
            base=[bar.start / unit for bar in bars],
            x=[(bar.end - bar.start) / unit for bar in bars],
            y=[bar.lane for bar in bars],
            customdata=[f"{bar.text} ({bar.count} tasks)" if bar.count > 1 else bar.text for bar in bars],
            hovertemplate="%{customdata}: from %{base:.4g} for %{x:.4g}<extra>" + kind + "</extra>",
            marker={"color": colour, "line": {"width": 0.5, "color": "white"}},
            name=kind,
        )
