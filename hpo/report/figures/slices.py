"""The score against each single hyperparameter."""

import math
from collections.abc import Sequence
from typing import Any

from hpo.engine.space.dimensions import Dimension, Range
from hpo.engine.trials.trial import Trial
from hpo.report.analysis.optuna_study import ranks_of
from hpo.report.figures.axes import axis_of, leave_out_far
from hpo.report.figures.look import OTHER, STAR, Drawn, add_trials, best_and_even, sampled, styled
from hpo.report.part import Absent
from hpo.report.subject import Subject, score_of
from hpo.report.words import escape_markup

_MOST, _COLUMNS, _MOST_PANELS = 400, 4, 12
_ROOM = 110  # characters that fit under the figure
_DOTS = {"color": OTHER, "size": 6, "opacity": 0.7}


def draw_slices(subject: Subject) -> Drawn | Absent:
    """Draw one panel per hyperparameter, the most important first."""
    if not subject.scored:
        return Absent("no trial is complete")
    from plotly.subplots import make_subplots

    drawn = best_and_even(subject.scored, _MOST)
    there = {key for trial in drawn for key in trial.point}
    keys = [key for key in subject.keys if key in there][:_MOST_PANELS]
    rows = math.ceil(len(keys) / _COLUMNS)
    columns = math.ceil(len(keys) / rows)
    figure = make_subplots(rows, columns, shared_yaxes=True, horizontal_spacing=0.03, vertical_spacing=0.25 / rows)
    for place, key in enumerate(keys):
        row, column = place // columns + 1, place % columns + 1
        trials = [trial for trial in drawn if key in trial.point]
        _add(figure, subject.space[key], [t for t in trials if not subject.is_winner(t)], _DOTS, row, column)
        _add(figure, subject.space[key], [t for t in trials if subject.is_winner(t)], STAR, row, column)
        values = [float(v) for t in trials if isinstance(v := t.point[key], int | float)]
        figure.update_xaxes(axis_of(subject.space[key], _ROOM // columns, values, has_names=True), row=row, col=column)
    far = leave_out_far(figure, [score_of(trial) for trial in drawn], [score_of(subject.ranked[0])])
    figure.update_yaxes(title_text=escape_markup(subject.metric), col=1)
    styled(figure, 60 + 260 * rows, margin={"t": 20, "r": 30, "b": 60, "l": 80}, showlegend=False)
    caption = f"{subject.which}; the star is the winner."
    more = f" The {len(keys)} most important of {len(there)} hyperparameters." if len(there) > len(keys) else ""
    return Drawn(figure, caption + more + sampled(drawn, subject.scored) + far)


def _add(
    figure: Any, dimension: Dimension, trials: Sequence[Trial], look: dict[str, Any], row: int, column: int
) -> None:
    """Draw trials in the panel of a dimension: a range by its numbers, others by the names of their values."""
    values = [trial.point[dimension.key] for trial in trials]
    if not isinstance(dimension, Range):
        ranks = ranks_of(dimension)
        names = [str(rank) for rank in ranks.values()]
        figure.update_xaxes(type="category", categoryorder="array", categoryarray=names, row=row, col=column)
        values = [str(ranks[isinstance(value, bool), value]) for value in values]
    scores, hover = [trial.score for trial in trials], "%{y} at %{x}<extra>trial %{customdata}</extra>"
    add_trials(figure, trials, values, scores, hover, marker=look, row=row, col=column)
