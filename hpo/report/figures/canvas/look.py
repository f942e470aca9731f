"""The look of figures: colours, layout, and axes that leave outliers out."""

import math
from collections.abc import Sequence
from typing import Any

from hpo.engine.trials.trial import Direction
from hpo.report.analysis.optuna_study import fence
from hpo.report.words import count_text, escape_markup

# Okabe & Ito 2008, "Color Universal Design": distinguishable with any kind of colour vision. Their pale yellow is left
# out, since it is hardly visible as a line on white.
OKABE_ITO = {
    "blue": "#0072B2",
    "orange": "#D55E00",
    "green": "#009E73",
    "purple": "#CC79A7",
    "yellow": "#E69F00",
    "sky": "#56B4E9",
    "black": "#000000",
}
BLUE, ORANGE, GREEN, PURPLE, YELLOW, SKY, BLACK = OKABE_ITO.values()
GREY = "#9AA0A6"
# What a colour means, in every figure of a report. All of them can be seen on white and on black.
WINNER, GOOD, OTHER, STOPPED, FAILED = ORANGE, BLUE, GREY, YELLOW, PURPLE
STAR = {"color": WINNER, "size": 12, "symbol": "star"}
# By their names in the page's style.
PALETTE = {**OKABE_ITO, "grey": GREY}

# Caption for values beyond an axis that `near_range` made.
FAR_OUT = " Values far out lie beyond the picture: double-click to see all."


def new_figure(num_columns: int = 1, titles: Sequence[str] = (), shared_heights: bool = True) -> Any:
    """Return an empty figure of panels in a row."""
    from plotly.subplots import make_subplots

    return make_subplots(
        1, num_columns, shared_yaxes=shared_heights, horizontal_spacing=0.06, subplot_titles=list(titles) or None
    )


def styled(figure: Any, height: int = 420, **layout: Any) -> Any:
    """Return the figure with the common look."""
    figure.update_layout(
        template="plotly_white",
        title=None,
        width=None,
        height=height,
        margin={"t": 40, "r": 30, "b": 60, "l": 80},
        font={"family": "system-ui, sans-serif", "size": 13, "color": "#222"},
        hoverlabel={"namelength": -1},
    )
    figure.update_layout(**layout)
    return figure


def short(text: str, most: int) -> str:
    """Return a text of at most so many characters; of a longer one the end, which distinguishes names."""
    return text if len(text) <= most else f"…{text[len(text) - most + 1 :]}"


def few_ticks(texts: Sequence[str], room: int) -> dict[str, Any]:
    """Return the ticks of an axis of ranks: as many evenly spaced texts as fit side by side.

    Args:
        texts: the texts of the ranks from 0.
        room: how many characters fit on the axis.
    """
    names = [escape_markup(short(text, room // 2)) for text in texts]
    every = 1
    # Two characters between neighbours.
    while every < len(names) and sum(len(name) + 2 for name in names[::every]) > room:
        every += 1
    return {"tickvals": list(range(len(names)))[::every], "ticktext": names[::every], "tickangle": 0}


def log_ticks(values: Sequence[float], most: int = 8) -> dict[str, Any]:
    """Return the ticks of a logarithmic axis over these values, written out: 20, 50, 100 rather than 2, 5, 100.

    At most `most` powers of ten if there are enough in the range; else 1, 2 and 5 times each.
    """
    low, high = math.log10(min(values)), math.log10(max(values))
    decades = range(math.floor(low), math.ceil(high) + 1)
    every = math.ceil(len(decades) / most)
    factors = (1,) if high - low > 2.5 else (1, 2, 5)
    ticks = [float(f"{factor}e{decade}") for decade in decades[::every] for factor in factors]
    return {"type": "log", "tickvals": ticks, "ticktext": [f"{tick:g}" for tick in ticks]}


def pale(colour: str, opacity: float = 0.15) -> str:
    """Return the colour with this opacity."""
    red, green, blue = (int(colour[start : start + 2], 16) for start in (1, 3, 5))
    return f"rgba({red}, {green}, {blue}, {opacity})"


def shade(share: float) -> str:
    """Return the colour of a score, from 0, the worst, to 1, the best: full ones are good, on white and on black."""
    return pale(GOOD, 0.1 + 0.9 * share)


def scale_of(direction: Direction) -> list[tuple[float, str]]:
    """Return the colours of scores from the lowest to the highest."""
    ends = (0.0, 1.0) if direction == "maximize" else (1.0, 0.0)
    return list(zip((0.0, 1.0), map(shade, ends), strict=True))


def add_band(figure: Any, places: Sequence[float], low: Sequence[float], high: Sequence[float], **look: Any) -> None:
    """Draw a band between two curves, without a line of its own; `look` as of a plotly scatter."""
    for end, fill in ((high, None), (low, "tonexty")):
        # The second end is filled up to the first.
        figure.add_scatter(x=places, y=end, fill=fill, mode="lines", hoverinfo="skip", showlegend=False, **look)


def near_range(values: Sequence[float], always: Sequence[float] = ()) -> list[float] | None:
    """Return the ends of an axis that shows all values except those far out; None if no value is far out.

    Args:
        values: the values that are drawn.
        always: values that are always shown.
    """
    if not values:
        return None
    low, high = fence(values)
    if (low, high) == (min(values), max(values)):
        return None
    low, high = min([low, *always]), max([high, *always])
    margin = 0.05 * (high - low) or 0.05 * abs(high) or 0.05
    return [low - margin, high + margin]


def whole_ticks(most: float) -> int | None:
    """Return the distance of ticks on an axis of whole numbers; None if plotly's own ticks have no fractions."""
    return 1 if most < 10 else None


def clipped(values: Sequence[float], name: str) -> str:
    """Return a sentence on values that are drawn at the fence instead of beyond it; empty if there are none."""
    low, high = fence(values)
    number = sum(not low <= value <= high for value in values)
    return f" {count_text(number, name)} outside of {low:.4g} to {high:.4g} drawn at its nearer end." if number else ""


def time_unit(seconds: float) -> tuple[float, str]:
    """Return the most readable unit for a duration: its seconds, and its name."""
    units = ((3600.0, "hours"), (60.0, "minutes"))
    return next(((size, name) for size, name in units if seconds >= 2 * size), (1.0, "seconds"))
