"""What the searches of each strategy attain of two metrics: a staircase that half of them reach, with a band."""

from collections.abc import Sequence
from typing import Any

from hpo.report.comparison import ComparisonJson
from hpo.report.figures.look import LEGEND, PALETTE, pale, styled
from hpo.report.words import escape_markup

_COLOURS = [colour for name, colour in PALETTE.items() if name != "black"]
_DASHES = ("solid", "dash", "dot", "dashdot")
_MARGIN = 0.05

Corners = Sequence[Sequence[float]]


def draw_attainment(result: ComparisonJson) -> Any:
    """Return the staircases of each strategy, or the fronts of studies; None without two metrics, or without any."""
    from plotly import graph_objects

    fronts = result.get("fronts")
    by_label = fronts.get("attainment", {}) if fronts else {}
    corners = [corner for levels in by_label.values() for level in levels.values() for corner in level]
    if not fronts or not corners:
        return None
    metrics = fronts["metrics"]
    ends = [
        _ends([corner[place] for corner in corners], direction == "maximize")
        for place, direction in enumerate(metrics.values())
    ]
    worst = (ends[0][0], ends[1][0])
    figure = graph_objects.Figure()
    for place, (label, levels) in enumerate(by_label.items()):
        colour, dash = _COLOURS[place % len(_COLOURS)], _DASHES[place // len(_COLOURS) % len(_DASHES)]
        few, half, most = (_staircase(levels.get(level, ()), worst) for level in ("25", "50", "75"))
        if few:
            # From the staircase that a quarter attain back along that of three quarters; where there is none, as far
            # as the axes go.
            outline = [*few, *reversed(most or [worst])]
            across, upwards = zip(*outline, strict=True)
            look = {"fill": "toself", "fillcolor": pale(colour), "line": {"width": 0}, "mode": "lines"}
            figure.add_scatter(x=across, y=upwards, hoverinfo="skip", showlegend=False, legendgroup=label, **look)
        if half:
            across, upwards = zip(*half, strict=True)
            line = {"color": colour, "dash": dash, "width": 2.5}
            name = escape_markup(label)
            figure.add_scatter(x=across, y=upwards, mode="lines", line=line, name=name, legendgroup=label)
    axes = [
        {"title": {"text": f"{escape_markup(name)} ({direction})"}, "range": sorted(end)}
        for (name, direction), end in zip(metrics.items(), ends, strict=True)
    ]
    look = {"margin": {"t": 20, "r": 20, "b": 60, "l": 80}, "font": {"size": 14}, "hovermode": "closest"}
    return styled(figure, 460, xaxis=axes[0], yaxis=axes[1], legend=LEGEND, showlegend=True, **look)


def _ends(values: Sequence[float], is_maximized: bool) -> tuple[float, float]:
    """Return the ends of an axis around the values, the worse one first."""
    low, high = min(values), max(values)
    margin = _MARGIN * (high - low) or abs(high) * _MARGIN or 1.0
    return (low - margin, high + margin) if is_maximized else (high + margin, low - margin)


def _staircase(corners: Corners, worst: tuple[float, float]) -> list[tuple[float, float]]:
    """Return the line through the corners, the best of the first metric first, from one end of the axes to the other.

    Between two corners lies what is as bad as both: the first metric of the later, and the second of the earlier.
    """
    if not corners:
        return []
    line = [(corners[0][0], worst[1])]
    for (first, second), after in zip(corners, [*corners[1:], worst], strict=True):
        line += [(first, second), (after[0], second)]
    return line
