"""Figures of the score over each hyperparameter, and over pairs of the most important hyperparameters."""

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from hpo.report.figures.axes import axis_of, clip, leave_out_far, texts, values_of
from hpo.report.figures.style import OTHER, Drawn, add_dots_and_star, best_and_even, colours_of, sampled, styled
from hpo.report.formatting import escape_markup
from hpo.report.importance import FEWEST, too_few
from hpo.report.part import Missing, missing
from hpo.report.subject import Subject, score_of
from hpo.trials.space.dimensions import Dimension, Range, rank_of
from hpo.trials.trial import Trial

# A cell of a map is a pair of values. Values of ranges are rounded to steps, because otherwise 1,000 trials would have
# a million cells.
_MOST, _STEPS, _MOST_KEYS = 400, 20, 4
_COLUMNS, _MOST_PANELS = 4, 12
# The number of characters that fit under the contour maps, and under the panels with one hyperparameter each.
_MAP_ROOM, _ROOM = 80, 110
_MAP_DOTS = {"color": OTHER, "size": 4}
_DOTS = {"color": OTHER, "size": 6, "opacity": 0.7}
_MAP = {"connectgaps": True, "contours_coloring": "heatmap", "hoverinfo": "none", "line_smoothing": 1.3}


@dataclass(frozen=True)
class _Axis:
    """The axis of a hyperparameter.

    `places` has the position on the axis for each trial that has the hyperparameter, by trial number.
    """

    dimension: Dimension
    places: Mapping[int, Any]

    @cached_property
    def ends(self) -> list[float]:
        """The ends of the axis with a margin, in plotly's form: exponents for a logarithmic axis."""
        places = [math.log10(place) if self._is_log else place for place in self.places.values()]
        margin = 0.05 * (max(places) - min(places))
        return [min(places) - margin, max(places) + margin]

    @cached_property
    def cells(self) -> list[float]:
        """The positions of a contour map's cells along this axis: all positions of trials, and the ends of the axis."""
        low, high = (10**end if self._is_log else end for end in self.ends)
        return [low, *sorted(set(self.places.values())), high]

    @property
    def _is_log(self) -> bool:
        return isinstance(self.dimension, Range) and self.dimension.log


def draw_contours(subject: Subject) -> Drawn | Missing:
    """Draw a contour map for each pair of the (at most four) most important hyperparameters.

    A cell of a map shows the cell's best trial.
    """
    if len(subject.scored) < FEWEST:
        # With fewer trials most of a map would be interpolated.
        return too_few(len(subject.scored))
    from plotly.subplots import make_subplots

    drawn = best_and_even(subject.scored, _MOST)
    axes = {key: _Axis(subject.space[key], _places(subject.space[key], drawn)) for key in subject.keys}
    keys = sorted([key for key, axis in axes.items() if len(set(axis.places.values())) > 1][:_MOST_KEYS])
    if len(keys) < 2:
        return missing("fewer than two hyperparameters have more than one value among the complete trials")
    # Two hyperparameters have one map, more have a square of maps.
    size = 1 if len(keys) == 2 else len(keys)
    figure = make_subplots(size, size, shared_xaxes=True, shared_yaxes=True)
    columns, rows = ([axes[key] for key in edge] for edge in (keys[:size], keys[-size:]))
    _label(figure, columns, rows, _MAP_ROOM // len(keys))
    scores, clipped = clip({trial.number: score_of(trial) for trial in drawn})
    for (column, x), (row, y) in itertools.product(enumerate(columns, start=1), enumerate(rows, start=1)):
        trials = [trial for trial in drawn if trial.number in x.places and trial.number in y.places]
        if x is y or not trials:
            continue
        # The better of two trials in one cell overwrites the other.
        worst_first = sorted(trials, key=lambda t: -t.loss)
        best = {(x.places[t.number], y.places[t.number]): scores[t.number] for t in worst_first}
        heights = [[best.get((across, up)) for across in x.cells] for up in y.cells]
        at = {"row": row, "col": column}
        figure.add_contour(x=x.cells, y=y.cells, z=heights, coloraxis="coloraxis", **_MAP, **at)
        hover = "trial %{customdata}<extra></extra>"
        add_dots_and_star(figure, subject, trials, x.places, y.places, hover, _MAP_DOTS, showlegend=False, **at)
    height, margin = 480 if size == 1 else 230 * size, {"t": 20, "r": 30, "b": 70, "l": 90}
    styled(figure, height, margin=margin, coloraxis=colours_of(subject))
    ranges = any(isinstance(subject.space[key], Range) for key in keys)
    snapped = f" Values of a range are moved to the nearest of {_STEPS + 1} evenly spaced positions." if ranges else ""
    return Drawn(
        figure,
        f"The best {subject.metric_label} at each pair of values ({subject.scored_text}), interpolated between trials. "
        f"A stronger blue means a better {subject.metric}. A dot is a trial, and the star is the {subject.called}."
        f"{snapped}{subject.few_trials_note}{sampled(drawn, subject.scored)}{clipped}",
    )


def _places(dimension: Dimension, trials: list[Trial]) -> dict[int, Any]:
    """Return each trial's position on the axis of a dimension, by trial number; leave out trials without a value.

    The position is the trial's value, rounded to one of 21 steps, if the dimension is a range. Otherwise, the position
    is the rank of the value among the dimension's values.
    """
    values = values_of(dimension, trials)
    if not isinstance(dimension, Range):
        return {number: rank_of(dimension.values, value) for number, value in values.items()}
    units = {number: round(dimension.to_unit(value) * _STEPS) / _STEPS for number, value in values.items()}
    return {number: dimension.from_unit(unit) for number, unit in units.items()}


def _label(figure: Any, columns: list[_Axis], rows: list[_Axis], room: int) -> None:
    """Set the axes of all contour maps; only the axes at the left and the lower edge of the figure have titles."""
    for column, x in enumerate(columns, start=1):
        across = axis_of(x.dimension, room)
        figure.update_xaxes(across | {"range": x.ends, "title_text": None}, col=column)
        figure.update_xaxes(title_text=across["title_text"], row=len(rows), col=column)
    for row, y in enumerate(rows, start=1):
        upwards = axis_of(y.dimension, _MAP_ROOM)
        figure.update_yaxes(upwards | {"range": y.ends, "title_text": None}, row=row)
        figure.update_yaxes(title_text=upwards["title_text"], row=row, col=1)


def draw_slices(subject: Subject) -> Drawn | Missing:
    """Draw one panel for each of at most twelve hyperparameters, the most important first if importances are known."""
    if not subject.scored:
        return missing("no trial is complete")
    from plotly.subplots import make_subplots

    drawn = best_and_even(subject.scored, _MOST)
    present = {key for trial in drawn for key in trial.point}
    known = [key for key in subject.keys if key in present]
    keys = known[:_MOST_PANELS]
    rows = math.ceil(len(keys) / _COLUMNS)
    columns = math.ceil(len(keys) / rows)
    figure = make_subplots(rows, columns, shared_yaxes=True, horizontal_spacing=0.03, vertical_spacing=0.25 / rows)
    scores = {trial.number: score_of(trial) for trial in drawn}
    for place, key in enumerate(keys):
        dimension, at = subject.space[key], {"row": place // columns + 1, "col": place % columns + 1}
        x = values_of(dimension, drawn)
        trials = [trial for trial in drawn if trial.number in x]
        if not isinstance(dimension, Range):
            names = [escape_markup(text) for text in texts(dimension)]
            x = {number: names[rank_of(dimension.values, value)] for number, value in x.items()}
        hover = "%{y} at %{x}<extra>trial %{customdata}</extra>"
        add_dots_and_star(figure, subject, trials, x, scores, hover, _DOTS, **at)
        figure.update_xaxes(axis_of(dimension, _ROOM // columns, list(x.values()), has_names=True), **at)
    far = leave_out_far(figure, list(scores.values()), [score_of(subject.ranked[0])])
    figure.update_yaxes(title_text=escape_markup(subject.metric), col=1)
    styled(figure, 60 + 260 * rows, margin={"t": 20, "r": 30, "b": 60, "l": 80}, showlegend=False)
    more = f" The {len(keys)} most important of {len(known)} hyperparameters." if len(known) > len(keys) else ""
    which = f"{subject.metric_label} of {subject.scored_text}" if len(subject.goal.metrics) > 1 else subject.scored_text
    return Drawn(figure, f"{which}; the star is the {subject.called}.{more}{sampled(drawn, subject.scored)}{far}")
