"""The style of a report's figures: colours, layout and rounding. Also samples the trials of a large study."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from hpo.report.formatting import escape_markup
from hpo.report.subject import Subject
from hpo.trials.ranking import one_loss
from hpo.trials.trial import Trial

Item = TypeVar("Item")

# Source: Okabe & Ito 2008, "Color Universal Design", distinguishable with any colour vision. Their pale yellow is left
# out, because a line in it is hardly visible on white. The page's style sheet uses the keys as names.
PALETTE = {
    "blue": "#0072B2",
    "orange": "#D55E00",
    "green": "#009E73",
    "purple": "#CC79A7",
    "yellow": "#E69F00",
    "sky": "#56B4E9",
    "black": "#000000",
    "grey": "#9AA0A6",
}
GREY = PALETTE["grey"]
# The meaning of colours in every figure. All are visible on white and on black.
WINNER, GOOD, OTHER = (PALETTE[name] for name in ("orange", "blue", "grey"))
STOPPED, FAILED, RUNNING = (PALETTE[name] for name in ("yellow", "purple", "green"))
STAR = {"color": WINNER, "size": 12, "symbol": "star"}
LEGEND = {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0}  # a row above the figure

_DIGITS = 5  # significant digits of a number; more are not visible and would double the page's size
_BEST = 0.2  # share of the best trials among those drawn


@dataclass(frozen=True)
class Drawn:
    """A plotly figure, with a caption that says what the figure shows, and what the figure leaves out."""

    figure: Any
    caption: str


def new_figure(num_columns: int = 1, titles: Sequence[str] = (), num_rows: int = 1, is_shared: bool = True) -> Any:
    """Return an empty figure of panels. The figure lacks plotly's template (see `white_style`).

    With `is_shared` all panels share the vertical axis."""
    from plotly.graph_objects import Figure
    from plotly.subplots import make_subplots

    plain = Figure(layout={"template": "none"})
    subplot_titles = list(titles) or None
    space = {
        "horizontal_spacing": 0.06 if is_shared else 0.1,
        "vertical_spacing": None if num_rows == 1 else 0.2 / num_rows,
    }
    return make_subplots(
        num_rows, num_columns, shared_yaxes=is_shared, subplot_titles=subplot_titles, figure=plain, **space
    )


def white_style() -> dict[str, Any]:
    """Return plotly's white template.

    A page contains the template once. A template in every figure would take a third of the drawing time."""
    from plotly.io import templates

    style: dict[str, Any] = templates["plotly_white"].to_plotly_json()
    return style


def styled(figure: Any, height: int = 420, **layout: Any) -> Any:
    """Apply the layout that all figures share, then the settings in `layout`; return the figure."""
    figure.update_layout(
        title=None,
        width=None,
        height=height,
        margin={"t": 40, "r": 30, "b": 60, "l": 80},
        font={"family": "system-ui, sans-serif", "size": 13, "color": "#222"},
        hoverlabel={"namelength": -1},
    )
    return figure.update_layout(**layout)


def pale(colour: str, opacity: float = 0.15) -> str:
    """Return the colour with this opacity."""
    red, green, blue = bytes.fromhex(colour[1:])
    return f"rgba({red}, {green}, {blue}, {opacity})"


def shade(share: float) -> str:
    """Return the colour of a scaled score from 0 (worst) to 1 (best).

    A better score has a more saturated colour, whether the page is white or black.
    """
    return pale(GOOD, 0.1 + 0.9 * share)


def colours_of(subject: Subject) -> dict[str, Any]:
    """Return the colour scale of the scores, from the lowest to the highest, and the colour bar of this scale."""
    low, high = (0.0, 1.0) if subject.direction == "maximize" else (1.0, 0.0)
    title = {"text": escape_markup(subject.metric)}
    return {"colorscale": [(0.0, shade(low)), (1.0, shade(high))], "colorbar": {"title": title}}


def add_band(figure: Any, places: Sequence[float], low: Sequence[float], high: Sequence[float], **look: Any) -> None:
    """Draw a band from the curve `low` to the curve `high`; `look` has arguments of a plotly scatter."""
    for end, fill in ((high, None), (low, "tonexty")):
        # Plotly fills the area from the second curve to the first.
        figure.add_scatter(x=places, y=end, fill=fill, mode="lines", hoverinfo="skip", showlegend=False, **look)


def add_trials(
    figure: Any, trials: Sequence[Trial], x: Sequence[Any], y: Sequence[Any], hover: str, **look: Any
) -> None:
    """Draw a mark per trial; %{customdata} in `hover` becomes the trial's number."""
    numbers = [trial.number for trial in trials]
    figure.add_scatter(x=x, y=y, customdata=numbers, hovertemplate=hover, **{"mode": "markers", **look})


def add_dots_and_star(
    figure: Any,
    subject: Subject,
    trials: Sequence[Trial],
    x: Mapping[int, Any],
    y: Mapping[int, Any],
    hover: str,
    dots: Mapping[str, Any],
    **look: Any,
) -> None:
    """Draw each trial as a dot and the winner as a star; `x` and `y` have the positions by trial number."""
    for is_winner, marker in ((False, dots), (True, STAR)):
        group = [trial for trial in trials if subject.is_winner(trial) == is_winner]
        across, upwards = ([places[trial.number] for trial in group] for places in (x, y))
        add_trials(figure, group, across, upwards, hover, marker=marker, **look)


def best_and_even(trials: Sequence[Trial], most: int) -> list[Trial]:
    """Return at most `most` trials in the given order.

    If more than `most` trials are given, a fifth of the result are the best trials. The rest of the result is evenly
    spaced among the other trials. The choice is not random, so equal studies have equal figures.
    """
    if len(trials) <= most:
        return list(trials)
    ranked = sorted(zip(one_loss(trials).tolist(), trials, strict=True), key=lambda pair: (pair[0], pair[1].number))
    best = {trial.number for _, trial in ranked[: round(_BEST * most)]}
    even = {t.number for t in evenly([t for t in trials if t.number not in best], most - len(best))}
    return [t for t in trials if t.number in best | even]


def evenly(items: Sequence[Item], most: int) -> list[Item]:
    """Return at most `most` evenly spaced items, including the first and the last."""
    if len(items) <= most:
        return list(items)
    return [items[round(place * (len(items) - 1) / (most - 1))] for place in range(most)]


def sampled(drawn: Sequence[Trial], trials: Sequence[Trial]) -> str:
    """Return a sentence that says how many trials a figure shows, and which; empty if the figure shows all trials."""
    if len(drawn) == len(trials):
        return ""
    best = round(_BEST * len(drawn))
    return f" {len(drawn):,} of {len(trials):,} trials are drawn: the {best:,} best, and evenly spaced other trials."


def figure_content(figure: Any) -> dict[str, Any]:
    """Return data and layout of a plotly figure as JSON data for a page."""
    return {
        "data": [_plain(trace.to_plotly_json()) for trace in figure.data],
        "layout": _plain(figure.layout.to_plotly_json()),
    }


def _plain(value: Any) -> Any:
    """Return a part of a figure as JSON types. Numbers in lists are rounded, but the figure looks the same."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list | tuple):
        digits = _digits([item for item in value if type(item) is float and math.isfinite(item)])
        return [float(f"{item:.{digits}g}") if _is_number(item) else _plain(item) for item in value]
    # Do not round a single number: it may be the end of a range, and rounding it saves nothing.
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _is_number(value: Any) -> bool:
    return type(value) is float and math.isfinite(value)


def _digits(values: Sequence[float]) -> int:
    """Return how many significant digits distinguish the values; closer values need more digits."""
    if not values:
        return _DIGITS
    size, span = max(map(abs, values)), max(values) - min(values)
    return min(17, _DIGITS + max(0, math.ceil(math.log10(size / span)))) if span else 17
