"""The spread of a configuration's scores over folds and seeds."""

from hpo.report.figures.look import OTHER, WINNER, Drawn, add_trials, new_figure, styled
from hpo.report.part import Absent
from hpo.report.subject import Subject
from hpo.report.words import escape_markup

_MOST = 15


def draw_fold_spread(subject: Subject) -> Drawn | Absent:
    """Draw the score of every fold and seed of the best configurations, the winner first (★)."""
    if not subject.ranked:
        return Absent("no trial is complete")
    if subject.layout.size == 1:
        return Absent("each configuration was trained once (one fold, one seed): see split.folds and study.repeats")
    best = subject.ranked[:_MOST]
    names = [f"{trial.number}{' ★' * subject.is_winner(trial)}" for trial in best]
    colours = [WINNER if subject.is_winner(trial) else OTHER for trial in best]
    figure = new_figure()
    for index in range(subject.layout.size):
        values = [trial.outcomes[index].metrics[subject.metric] for trial in best]
        # One name for all folds: with many, a legend would be longer than the figure.
        hover = f"{subject.layout.name(index)}: %{{y}}<extra>trial %{{customdata}}</extra>"
        add_trials(figure, best, names, values, hover, marker={"color": colours, "size": 7}, opacity=0.7)
    bar = {"symbol": "line-ew-open", "size": 22, "color": colours, "line": {"width": 2.5}}
    means = [trial.score for trial in best]
    add_trials(figure, best, names, means, "mean: %{y}<extra>trial %{customdata}</extra>", marker=bar)
    styled(figure, showlegend=False)
    figure.update_xaxes(type="category", title_text="trial, from the best")
    figure.update_yaxes(title_text=escape_markup(subject.metric))
    parts = f"{subject.layout.folds} folds" if subject.layout.repeats == 1 else f"{subject.layout.size} folds and seeds"
    count = f"the {len(best)} best of {subject.which}" if len(best) < len(subject.scored) else subject.which
    return Drawn(
        figure, f"{subject.metric} on each of {parts}, and their mean (bar), for {count}; the winner first (★)."
    )
