"""The score against each single hyperparameter."""

import math

from hpo.engine.space.dimensions import Range
from hpo.report.analysis.importance import rank_of
from hpo.report.figures.axes import axis_of, leave_out_far, texts, values_of
from hpo.report.figures.look import OTHER, Drawn, add_dots_and_star, best_and_even, sampled, styled
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
    scores = {trial.number: score_of(trial) for trial in drawn}
    for place, key in enumerate(keys):
        dimension, at = subject.space[key], {"row": place // columns + 1, "col": place % columns + 1}
        x = values_of(dimension, drawn)
        trials = [trial for trial in drawn if trial.number in x]
        if not isinstance(dimension, Range):
            names = [escape_markup(text) for text in texts(dimension)]
            x = {number: names[rank_of(dimension, value)] for number, value in x.items()}
        hover = "%{y} at %{x}<extra>trial %{customdata}</extra>"
        add_dots_and_star(figure, subject, trials, x, scores, hover, _DOTS, **at)
        figure.update_xaxes(axis_of(dimension, _ROOM // columns, list(x.values()), has_names=True), **at)
    far = leave_out_far(figure, list(scores.values()), [score_of(subject.ranked[0])])
    figure.update_yaxes(title_text=escape_markup(subject.metric), col=1)
    styled(figure, 60 + 260 * rows, margin={"t": 20, "r": 30, "b": 60, "l": 80}, showlegend=False)
    more = f" The {len(keys)} most important of {len(there)} hyperparameters." if len(there) > len(keys) else ""
    return Drawn(figure, f"{subject.which}; the star is the winner.{more}{sampled(drawn, subject.scored)}{far}")
