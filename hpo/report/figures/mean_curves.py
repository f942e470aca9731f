"""Draws the mean best score so far of each strategy's searches, with a 95 % band."""

import math
from collections.abc import Sequence
from typing import Any

from hpo.report.comparison import ComparisonJson
from hpo.report.figures.axes import log_ticks
from hpo.report.figures.style import LEGEND, PALETTE, add_band, new_figure, pale, styled
from hpo.report.formatting import escape_markup
from hpo.trials.trial import loss_of

# Dash patterns distinguish curves of equal colour, if there are more curves than colours.
_COLOURS = [colour for name, colour in PALETTE.items() if name != "black"]
_DASHES = ("solid", "dash", "dot", "dashdot")
_ROUNDING = 1e-9
_AXES = {"trials": "trials", "seconds": "seconds of training, all workers together"}


def draw_mean_curves(result: ComparisonJson, unit: str) -> Any:
    """Return a figure that shows the mean best score so far of each compared strategy or study as a curve.

    `unit` is the unit of the x axis: `trials` or `seconds`. If a curve has a 95 % interval, draw it as a band. If the
    optimum is known, draw regrets instead of scores. If no curve has data, return None.
    """
    figure = new_figure()
    for place, (label, curves) in enumerate(result["curves"].items()):
        curve = curves[unit]
        if not curve[unit]:
            continue
        colour, dash = _COLOURS[place % len(_COLOURS)], _DASHES[place // len(_COLOURS) % len(_DASHES)]
        mean, low, high = (_heights(curve[name], result) for name in ("mean", "low", "high"))
        # The best score so far is a step function.
        if low:
            edge = {"width": 0, "shape": "hv"}
            add_band(figure, curve[unit], low, high, fillcolor=pale(colour), line=edge, legendgroup=label)
        line = {"color": colour, "dash": dash, "width": 2.5, "shape": "hv"}
        name = escape_markup(label)
        figure.add_scatter(x=curve[unit], y=mean, mode="lines", line=line, name=name, legendgroup=label)
    if not figure.data:
        return None
    metric = escape_markup(result["metric"])
    across = {"title": {"text": _AXES[unit]}, "rangemode": "tozero"}
    if "fronts" in result:
        upwards = _log_axis(figure, metric, f"{metric} (log)")  # the metric is already a regret
    elif result["optimum"] is None:
        upwards = {"title": {"text": f"best {metric}"}, "range": _range(figure)}
    else:
        upwards = _log_axis(figure, f"regret ({metric})", f"regret ({metric}, log)")
    look = {"margin": {"t": 20, "r": 20, "b": 60, "l": 80}, "hovermode": "x unified", "font": {"size": 14}}
    return styled(figure, 460, xaxis=across, yaxis=upwards, legend=LEGEND, **look)


def _log_axis(figure: Any, title: str, log_title: str) -> dict[str, Any]:
    """Return a logarithmic axis, and draw zeros at its lower end. If all regrets are 0, return a linear axis."""
    heights = [y for trace in figure.data for y in trace.y]
    # Smaller regrets are rounding errors.
    least = _ROUNDING * max(heights)
    above = [y for y in heights if y > max(0.0, least)]
    if not above:
        return {"title": {"text": title}, "rangemode": "tozero"}
    zero = min(above) / 2
    for trace in figure.data:
        if trace.hoverinfo != "skip":
            trace.update(customdata=list(trace.y), hovertemplate="%{customdata:.6g}")
        trace.y = [y if y > max(0.0, least) else zero for y in trace.y]
    ticks = log_ticks([zero, *above])
    named = [(at, text) for at, text in zip(ticks["tickvals"], ticks["ticktext"], strict=True) if at > zero]
    if len(above) < len(heights):
        named.insert(0, (zero, "0"))
    ticks |= {"tickvals": [at for at, _ in named], "ticktext": [text for _, text in named]}
    ends = [math.log10(zero), math.log10(max(above)) + 0.05]
    return {**ticks, "title": {"text": log_title}, "range": ends}


def _range(figure: Any) -> tuple[float, float] | None:
    """Return the vertical range of the last nine tenths of the curves; None if all their values are equal."""
    # Scores near the start would dwarf all other scores.
    start = max(trace.x[-1] for trace in figure.data) / 10
    heights = [y for trace in figure.data for x, y in zip(trace.x, trace.y, strict=True) if x >= start]
    margin = 0.05 * (max(heights) - min(heights))
    return (min(heights) - margin, max(heights) + margin) if margin else None


def _heights(scores: Sequence[float], result: ComparisonJson) -> list[float]:
    """Return the regrets of scores if the optimum is known, else the scores."""
    if result["optimum"] is None:
        return list(scores)
    return [loss_of(score - result["optimum"], result["direction"]) for score in scores]
