"""Two figures: the trials' learning curves with the winner's curves on top, and the best trials' scores by fold."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from hpo.report.figures.axes import leave_out_far
from hpo.report.figures.style import (
    FAILED,
    OTHER,
    RUNNING,
    STOPPED,
    WINNER,
    Drawn,
    add_trials,
    best_and_even,
    evenly,
    new_figure,
    pale,
    sampled,
    styled,
)
from hpo.report.formatting import escape_markup
from hpo.report.part import Missing, missing
from hpo.report.sections.winner import over_text
from hpo.report.subject import Subject
from hpo.trials.trial import Outcome, Trial

_MOST_CURVES, _MOST_PLACES = 100, 200
_AXES = ("epoch", "step")
# Keys in a curve's points that are no measurements.
_NO_METRICS = {*_AXES, "epochs", "lr"}
_COLOURS = {"stopped": STOPPED, "failed": FAILED, "running": RUNNING}

_Curve = list[tuple[float, float]]


def draw_learning_curves(subject: Subject) -> Drawn | Missing:
    """Draw each trial's mean curve over its tasks, and the curve of each of the winner's tasks.

    Draw at most 100 of the ended trials. In a study with scales, draw only the trials at one scale. This is the largest
    scale at which any trial has a curve. A trial's mean curve ends where the trial's shortest task ends, because a mean
    over fewer tasks would jump.
    """
    points = [point for trial in subject.trials for outcome in trial.outcomes.values() for point in outcome.curve]
    if not points:
        return missing("the objective reports no learning curve")
    # Any point may lack values, because the record leaves out values that are not finite.
    axis = next((axis for axis in _AXES if any(axis in point for point in points)), None)
    metric = _metric(subject.metric, points)
    if axis is None or metric is None:
        return missing("the learning curves have no measured values, or neither epochs nor steps")
    means = {trial.number: _mean_curve(trial, axis, metric) for trial in subject.trials}
    scale = max((t.scale for t in subject.trials if means[t.number]), default=0)
    others = [t for t in subject.trials if means[t.number] and t.scale == scale and not subject.is_winner(t)]
    # Draw all running trials, because they are few and of interest.
    running, ended = ([t for t in others if (t.state == "running") == is_open] for is_open in (True, False))
    drawn = best_and_even(ended, _MOST_CURVES)
    figure = new_figure()
    for trial in [*sorted(drawn, key=lambda t: -t.loss), *running]:
        line = {"color": pale(_COLOURS.get(trial.state, OTHER), 0.6), "width": 1}
        _add(figure, trial, means[trial.number], f"trial {trial.number}", line)
    folds = ""
    if (winner := subject.winner) is not None:
        if len(winner.outcomes) > 1:
            folds = ", with a dotted curve for each fold and seed"
            line = {"color": pale(WINNER, 0.6), "dash": "dot"}
            for index, outcome in sorted(winner.outcomes.items()):
                _add(
                    figure,
                    winner,
                    evenly(_curve(outcome, axis, metric), _MOST_PLACES),
                    f"{subject.called}, {subject.layout.name(index)}",
                    line,
                )
        _add(figure, winner, means[winner.number], subject.called, {"color": WINNER, "width": 3})
    if not figure.data:
        return missing("no two trainings of a trial have an evaluation at the same epoch or step")
    styled(figure, showlegend=False)
    last = max(x for trace in figure.data for x in trace.x)
    figure.update_xaxes(title_text=axis, dtick=1 if last < 10 else None)  # plotly's default ticks would have fractions
    direction = subject.goal.metrics.get(metric)
    figure.update_yaxes(title_text=f"{escape_markup(metric)} ({direction})" if direction else escape_markup(metric))
    far = leave_out_far(figure, [y for trace in figure.data for y in trace.y])
    name = subject.metric_label if metric == subject.metric else metric
    caption = f"{name} during training, as the mean over folds and seeds. The {subject.called} is orange{folds}."
    states = {trial.state for trial in (*drawn, *running)}
    states_text = " Stopped trials are yellow." * ("stopped" in states) + " Failed trials are purple." * (
        "failed" in states
    )
    states_text += " Running trials are green." * bool(running)
    at_scale = f" Only trials at scale {scale} are drawn; the target is scale {subject.goal.target}." if scale else ""
    return Drawn(figure, caption + at_scale + states_text + sampled(drawn, ended) + far)


def _mean_curve(trial: Trial, axis: str, metric: str) -> _Curve:
    """Return the mean curve of the trial's tasks, at the epochs or steps that occur in the curves of all tasks."""
    curves = [dict(curve) for outcome in trial.outcomes.values() if (curve := _curve(outcome, axis, metric))]
    common = sorted(set(curves[0]).intersection(*curves[1:])) if curves else []
    return [(place, sum(curve[place] for curve in curves) / len(curves)) for place in evenly(common, _MOST_PLACES)]


def _curve(outcome: Outcome, axis: str, metric: str) -> _Curve:
    """Return the learning curve of one training as pairs of an epoch (or step) and the metric's value."""
    return [(point[axis], point[metric]) for point in outcome.curve if axis in point and metric in point]


def _metric(wanted: str, points: Sequence[Mapping[str, float]]) -> str | None:
    """Return `wanted` if a curve has it, else the metric with the most values; None without metrics."""
    counts = Counter(key for point in points for key in point if key not in _NO_METRICS)
    return wanted if wanted in counts else min(counts, key=lambda key: (-counts[key], key), default=None)


def _add(figure: Any, trial: Trial, curve: _Curve, name: str, line: Mapping[str, Any]) -> None:
    if curve:
        # One point is not visible as a line.
        mode, marker = "lines" if len(curve) > 1 else "markers", {"color": line["color"]}
        x, y = zip(*curve, strict=True)
        figure.add_scatter(x=x, y=y, name=name, meta=trial.number, line=line, mode=mode, marker=marker)


_MOST = 15


def draw_fold_spread(subject: Subject) -> Drawn | Missing:
    """Draw the best trials' scores on each fold and seed; the winner comes first (★)."""
    if not subject.ranked:
        return missing("no trial is complete")
    if subject.layout.size == 1:
        return missing("each trial has one training: set split.folds or study.repeats to at least 2")
    best = subject.ranked[:_MOST]
    names = [f"{trial.number}{' ★' * subject.is_winner(trial)}" for trial in best]
    colours = [WINNER if subject.is_winner(trial) else OTHER for trial in best]
    figure = new_figure()
    for index in range(subject.layout.size):
        values = [trial.outcomes[index].metrics[subject.metric] for trial in best]
        # Folds have names on hover only, because a legend of many folds would be longer than the figure.
        hover = f"{subject.layout.name(index)}: %{{y}}<extra>trial %{{customdata}}</extra>"
        add_trials(figure, best, names, values, hover, marker={"color": colours, "size": 7}, opacity=0.7)
    bar = {"symbol": "line-ew-open", "size": 22, "color": colours, "line": {"width": 2.5}}
    means = [trial.score for trial in best]
    add_trials(figure, best, names, means, "mean: %{y}<extra>trial %{customdata}</extra>", marker=bar)
    styled(figure, showlegend=False)
    figure.update_xaxes(type="category", title_text="trial, from the best")
    figure.update_yaxes(title_text=escape_markup(subject.metric))
    parts = f"{subject.layout.size} {over_text(map(subject.layout.name, range(subject.layout.size)))}"
    count = f"the {len(best)} best of {subject.scored_text}" if len(best) < len(subject.scored) else subject.scored_text
    return Drawn(
        figure,
        f"{subject.metric_label} of {count}. A dot is the value on one of {parts}; a bar is a trial's mean. The "
        f"{subject.called} has a ★.",
    )
