"""Rows of bars, one bar per task, over a time."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from hpo.engine.trials.trial import Outcome, Trial
from hpo.report.figures.canvas.look import FAILED, OTHER, STOPPED, WINNER, new_figure, styled
from hpo.report.subject import Subject

_MOST = 3_000
_KINDS = {"complete": OTHER, "winner": WINNER, "stopped early": STOPPED, "failed": FAILED}


@dataclass(frozen=True)
class Bar:
    """One task, or several of one kind on one lane that a picture cannot distinguish.

    Attributes:
        lane: its row, from 0.
        kind: `complete`, `winner`, `stopped early` (its trial was stopped) or `failed`.
        start, end: in any unit of time.
        text: its label.
        count: the number of tasks.
    """

    lane: int
    kind: str
    start: float
    end: float
    text: str
    count: int = 1


def kind_of(subject: Subject, trial: Trial, outcome: Outcome) -> str:
    """Return the kind of a task's bar."""
    if outcome.error:
        return "failed"
    if subject.winner is not None and trial.number == subject.winner.number:
        return "winner"
    return "stopped early" if trial.state == "stopped" else "complete"


def draw_bars(bars: Sequence[Bar], row: str, axis: str, unit: float = 1.0) -> tuple[Any, str]:
    """Return a figure of at most 3,000 bars with the idle share of each row, and a sentence on bars that were joined.

    Args:
        bars: at least one.
        row: what a row is, such as `worker`.
        axis: the title of the time's axis.
        unit: what times are divided by.
    """
    end = max(bar.end for bar in bars)
    merged, gap = _merged(bars, end)
    figure = new_figure()
    for kind, colour in _KINDS.items():
        _add(figure, kind, colour, [bar for bar in merged if bar.kind == kind], unit)
    idle = _idle_by_lane(bars, end)
    styled(
        figure,
        min(900, 150 + 30 * len(idle)),
        barmode="overlay",
        bargap=0.2,
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
    )
    figure.update_xaxes(title_text=axis, range=[0, 1.01 * end / unit or 1])
    ticks = [f"{row} {lane + 1}, idle {share:.0%}" for lane, share in enumerate(idle)]
    figure.update_yaxes(tickvals=list(range(len(ticks))), ticktext=ticks, autorange="reversed", automargin=True)
    return figure, f" Tasks less than {gap:.2g} apart are one bar." if len(merged) < len(bars) else ""


def rows_of(spans: Sequence[tuple[float, float]]) -> list[int]:
    """Return for each span, in the order of their starts, the first row that is free by then."""
    ends: list[float] = []
    rows = []
    for start, end in spans:
        row = next((place for place, busy in enumerate(ends) if busy <= start), len(ends))
        ends[row : row + 1] = [end]
        rows.append(row)
    return rows


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
