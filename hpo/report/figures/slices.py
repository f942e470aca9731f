"""The score against each single hyperparameter."""

import math
from typing import Any

from hpo.report.facts.optuna_study import optuna_study, quiet_optuna
from hpo.report.facts.subject import Subject, score_of
from hpo.report.facts.words import shown
from hpo.report.figures.canvas.axes import axis_of
from hpo.report.figures.canvas.drawn import Drawn
from hpo.report.figures.canvas.look import FAR_OUT, near_range, styled
from hpo.report.figures.canvas.sample import best_and_even, sampled
from hpo.report.part import Absent

_MOST, _COLUMNS, _MOST_PANELS = 400, 4, 12
_ROOM = 110  # characters that fit under the figure


def draw_slices(subject: Subject) -> Drawn | Absent:
    """Draw one panel per hyperparameter, the most important first; later trials are darker."""
    if not subject.scored:
        return Absent("no trial is complete")
    from optuna.visualization import plot_slice
    from plotly.subplots import make_subplots

    drawn = best_and_even(subject.scored, _MOST)
    study = optuna_study(subject.space, subject.direction, drawn, keeps_wild=True)
    there = {key for trial in drawn for key in trial.point}
    keys = [key for key in subject.keys if key in there][:_MOST_PANELS]
    rows = math.ceil(len(keys) / _COLUMNS)
    columns = math.ceil(len(keys) / rows)
    figure = make_subplots(rows, columns, shared_yaxes=True, horizontal_spacing=0.03, vertical_spacing=0.25 / rows)
    for place, key in enumerate(keys):
        row, column = place // columns + 1, place % columns + 1
        with quiet_optuna():
            panel = plot_slice(study, params=[shown(key)], target_name=shown(subject.metric))
        _add(figure, panel, row, column)
        values = [float(v) for t in drawn if isinstance(v := t.point.get(key), int | float)]
        figure.update_xaxes(axis_of(subject.space[key], _ROOM // columns, values, has_names=True), row=row, col=column)
    heights = near_range([score_of(trial) for trial in drawn], [score_of(subject.ranked[0])])
    figure.update_yaxes(range=heights)
    figure.update_yaxes(title_text=shown(subject.metric), col=1)
    styled(figure, 60 + 260 * rows, margin={"t": 20, "r": 30, "b": 60, "l": 80}, showlegend=False)
    caption = f"{subject.which}; the darker, the later."
    more = f" The {len(keys)} most important of {len(there)} hyperparameters." if len(there) > len(keys) else ""
    return Drawn(figure, caption + more + sampled(len(drawn), len(subject.scored)) + (FAR_OUT if heights else ""))


def _add(figure: Any, panel: Any, row: int, column: int) -> None:
    for trace in panel.data:
        # A colour scale for all panels would be as high as the page; the caption explains the colours instead.
        trace.marker.showscale = False
        figure.add_trace(trace, row=row, col=column)
    axis = panel.layout.xaxis
    figure.update_xaxes(
        type=axis.type, categoryorder=axis.categoryorder, categoryarray=axis.categoryarray, row=row, col=column
    )
