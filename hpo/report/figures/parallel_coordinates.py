"""The figure of parallel coordinates: each trial is a line across the axes of its hyperparameters."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from hpo.report.figures.axes import clip, short, texts, values_of
from hpo.report.figures.style import GREY, WINNER, Drawn, best_and_even, colours_of, new_figure, sampled, shade, styled
from hpo.report.formatting import escape_markup
from hpo.report.part import Missing, missing
from hpo.report.subject import Subject, score_of
from hpo.trials.space.dimensions import Dimension, Range, rank_of
from hpo.trials.trial import Trial

_MOST, _MOST_AXES = 150, 10
_ROOM = 120  # number of characters that fit under the figure
_GAP = 0.12 / 0.88  # how far below the axis trials without a value are, as a share of its length

_Mark = tuple[float, str]  # a height from 0 to 1, and its text


class _Axis(NamedTuple):
    """An axis: the height and text of each trial by trial number, and the ticks."""

    marks: Mapping[int, _Mark]
    ticks: Sequence[_Mark]


def draw_parallel_coordinates(subject: Subject) -> Drawn | Missing:
    """Draw one line per trial, with a more saturated colour for a better score."""
    if not subject.scored:
        return missing("no trial is complete")
    drawn = best_and_even(subject.scored, _MOST)
    keys = sorted([key for key in subject.keys if any(key in trial.point for trial in drawn)][:_MOST_AXES])
    scores, clipped = clip({trial.number: score_of(trial) for trial in drawn})
    by_score = _number_axis(drawn, scores, is_log=False)
    others, clipped_others = _other_metrics(subject, drawn)
    axes = (
        {_metric_name(subject, subject.metric): by_score}
        | others
        | {key: _axis(subject.space[key], drawn) for key in keys}
    )
    figure = new_figure()
    # Draw better trials later, and the winner last, on top of all.
    for trial in sorted(drawn, key=lambda t: (subject.is_winner(t), -t.loss, -t.number)):
        height, _ = by_score.marks[trial.number]
        colour = shade(height if subject.direction == "maximize" else 1 - height)
        line = {"color": WINNER, "width": 3} if subject.is_winner(trial) else {"color": colour, "width": 1.2}
        heights, texts = zip(*(axis.marks[trial.number] for axis in axes.values()), strict=True)
        labels = [escape_markup(f"{name}: {text}") for name, text in zip(axes, texts, strict=True)]
        look = {"mode": "lines", "line": line, "meta": trial.number, "hovertemplate": "%{customdata}<extra></extra>"}
        figure.add_scatter(x=list(range(len(axes))), y=heights, customdata=labels, **look)
    low, high = min(scores.values()), max(scores.values())
    half = 0.0 if low < high else 0.5
    ends = {"color": [low, high], "cmin": low - half, "cmax": high + half, "showscale": True}
    # This trace is empty and only adds the colour bar.
    figure.add_scatter(x=[None, None], y=[None, None], mode="markers", marker={**ends, **colours_of(subject)})
    _label(figure, axes)
    styled(figure, 460, margin={"t": 30, "r": 30, "b": 40, "l": 60}, hovermode="closest", showlegend=False)
    return Drawn(
        figure,
        f"Each line is a trial ({subject.scored_text}). "
        f"A stronger blue means a better {subject.metric}; the {subject.called} is orange."
        + f" The {len(keys)} most important of {len(subject.keys)} hyperparameters." * (len(subject.keys) > len(keys))
        + sampled(drawn, subject.scored)
        + clipped
        + clipped_others
        + " None = the trial's other values switch this hyperparameter off."
        * any(key not in trial.point for key in keys for trial in drawn),
    )


def _metric_name(subject: Subject, metric: str) -> str:
    """Return the name of a metric's axis: the metric's name, with a prefix if a hyperparameter has the same name."""
    return f"metric.{metric}" if metric in subject.space.keys else metric


def _other_metrics(subject: Subject, trials: Sequence[Trial]) -> tuple[dict[str, _Axis], str]:
    """Return the axes of all metrics but the leading one, and sentences about clipped values."""
    axes, sentences = {}, ""
    for name in list(subject.goal.metrics)[1:]:
        values, clipped = clip({trial.number: trial.mean(name) for trial in trials})
        sentences += clipped and f" {escape_markup(name)}:{clipped}"
        axes[_metric_name(subject, name)] = _number_axis(trials, values, is_log=False)
    return axes, sentences


def _axis(dimension: Dimension, trials: Sequence[Trial]) -> _Axis:
    """Return the axis of a hyperparameter: a scale of numbers for a range, else equally spaced values."""
    values = values_of(dimension, trials)
    if isinstance(dimension, Range):
        return _number_axis(trials, values, dimension.log)
    ranks = {number: rank_of(dimension.values, value) for number, value in values.items()}
    used = sorted(set(ranks.values()))
    names = [texts(dimension)[rank] for rank in used]
    if len(values) < len(trials):
        names = ["None (value)" if name == "None" else name for name in names]
    places = {number: used.index(rank) for number, rank in ranks.items()}
    return _scaled(trials, places, range(len(names)), lambda place: names[int(place)], 1.0)


def _number_axis(trials: Sequence[Trial], values: Mapping[int, Any], is_log: bool) -> _Axis:
    """Return an axis of numbers, or of logarithms. Ticks of logarithms are at the powers of ten and at both ends."""
    places = {number: math.log10(value) if is_log else value for number, value in values.items()}
    low, high = min(places.values()), max(places.values())
    ticks = {low, *range(math.ceil(low), math.floor(high) + 1), high} if is_log else np.linspace(low, high, 5).tolist()
    gap = _GAP * (high - low) or 1.0
    return _scaled(trials, places, sorted(set(ticks)), lambda place: f"{10**place if is_log else place:.3g}", gap)


def _scaled(
    trials: Sequence[Trial],
    places: Mapping[int, float],
    ticks: Iterable[float],
    text: Callable[[float], str],
    gap: float,
) -> _Axis:
    """Return an axis on which each trial has its position from `places`. The keys of `places` are trial numbers.

    If a trial is not in `places`, the trial is at the start of the axis, `gap` below the lowest position.
    """
    is_missing = len(places) < len(trials)
    low, high = min(places.values()) - gap * is_missing, max(places.values())

    def mark(place: float) -> _Mark:
        return (place - low) / (high - low) if high > low else 0.5, text(place)

    none = (0.0, "None")
    marks = {trial.number: mark(places[trial.number]) if trial.number in places else none for trial in trials}
    return _Axis(marks, [*([none] if is_missing else []), *map(mark, ticks)])


def _label(figure: Any, axes: Mapping[str, _Axis]) -> None:
    """Draw the axes with their ticks and names; shorten a name that would overlap the name of the next axis."""
    for place, axis in enumerate(axes.values()):
        line = {"color": "#888", "width": 1}
        figure.add_shape(type="line", x0=place, x1=place, y0=0, y1=1, line=line, layer="below")
        for height, text in axis.ticks:
            # Give the texts a background, so that lines do not cross them out. The page replaces white with its own
            # background colour.
            look = {"bgcolor": "white", "font": {"size": 10, "color": GREY}, "showarrow": False}
            figure.add_annotation(x=place, y=height, text=escape_markup(text), xanchor="right", xshift=-4, **look)
    room = _ROOM // len(axes)
    names = [escape_markup(key if len(key) <= room else short(key.rpartition(".")[2], room)) for key in axes]
    ticks = {"tickvals": list(range(len(axes))), "ticktext": names, "showgrid": False, "zeroline": False}
    figure.update_xaxes(range=(-0.2, len(axes) - 0.8), **ticks)
    figure.update_yaxes(range=(-0.08, 1.08), visible=False, fixedrange=True)
