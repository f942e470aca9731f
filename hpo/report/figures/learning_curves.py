"""Learning curves of the trials, the winner's in front."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from hpo.engine.trials.trial import Outcome, Trial
from hpo.report.figures.canvas.drawn import Drawn
from hpo.report.figures.canvas.look import (
    FAILED,
    FAR_OUT,
    OTHER,
    STOPPED,
    WINNER,
    near_range,
    new_figure,
    pale,
    styled,
    whole_ticks,
)
from hpo.report.figures.canvas.sample import best_and_even, evenly, sampled
from hpo.report.part import Absent
from hpo.report.subject import Subject
from hpo.report.words import escape_markup

_MOST_CURVES, _MOST_PLACES = 100, 200
_AXES = ("epoch", "step")
# Keys of a curve's points that are not measurements.
_NO_METRICS = {*_AXES, "epochs", "lr"}

Curve = list[tuple[float, float]]


def draw_learning_curves(subject: Subject) -> Drawn | Absent:
    """Draw the mean curve over the tasks of each trial, and every task's curve of the winner.

    A mean ends with the trial's shortest curve; beyond, it would jump.
    """
    points = [point for _, _, outcome in _tasks(subject.trials) for point in outcome.curve]
    if not points:
        return Absent("the objective yields no learning curve")
    # Values that were not finite were not recorded, so any point may have gaps.
    axis = next((axis for axis in _AXES if any(axis in point for point in points)), None)
    metric = _metric(subject.metric, points)
    if axis is None or metric is None:
        return Absent("no point of the learning curves has an epoch or step, and something that was measured")
    curves = {trial.number: mean_curve(trial, axis, metric) for trial in subject.trials}
    there = [t for t in subject.trials if curves[t.number] and not subject.is_winner(t)]
    drawn = best_and_even(there, _MOST_CURVES)
    figure = new_figure()
    for trial in sorted(drawn, key=lambda t: -t.loss):
        line = {"color": pale(_colour(trial), 0.6), "width": 1}
        _add(figure, trial, curves[trial.number], f"trial {trial.number}", line)
    if subject.winner is not None:
        for index, outcome in sorted(subject.winner.outcomes.items()):
            if len(subject.winner.outcomes) > 1:
                name = f"winner, {subject.layout.name(index)}"
                _add(
                    figure,
                    subject.winner,
                    curve_of(outcome, axis, metric),
                    name,
                    {"color": pale(WINNER, 0.6), "dash": "dot"},
                )
        _add(figure, subject.winner, curves[subject.winner.number], "winner", {"color": WINNER, "width": 3})
    if not figure.data:
        return Absent("no two trainings of a trial have an evaluation at the same place")
    heights = near_range([y for trace in figure.data for y in trace.y])
    styled(figure, showlegend=False)
    figure.update_xaxes(title_text=axis, dtick=whole_ticks(max(x for trace in figure.data for x in trace.x)))
    figure.update_yaxes(title_text=escape_markup(metric), range=heights)
    folds = ", dotted its folds and seeds" if subject.winner and len(subject.winner.outcomes) > 1 else ""
    far = FAR_OUT if heights else ""
    caption = f"{metric} on the way, mean over folds and seeds; the winner in orange{folds}."
    ended = {trial.state for trial in drawn}
    failed = " Stopped trials in yellow." * ("stopped" in ended) + " Failed trials in purple." * ("failed" in ended)
    return Drawn(figure, caption + failed + sampled(len(drawn), len(there)) + far)


def mean_curve(trial: Trial, axis: str, metric: str) -> Curve:
    """Return the mean over the trial's tasks at the places where all tasks with a curve were measured."""
    curves = [dict(curve) for o in trial.outcomes.values() if (curve := curve_of(o, axis, metric))]
    if not curves:
        return []
    common = sorted(set(curves[0]).intersection(*curves[1:]))
    return [(place, sum(curve[place] for curve in curves) / len(curves)) for place in evenly(common, _MOST_PLACES)]


def curve_of(outcome: Outcome, axis: str, metric: str) -> Curve:
    """Return the measurements of one training with their places."""
    return [(point[axis], point[metric]) for point in outcome.curve if axis in point and metric in point]


def _metric(wanted: str, points: Sequence[Mapping[str, float]]) -> str | None:
    """Return the study's metric; if the curves lack it, the most common measurement, on ties the first by name."""
    counts = Counter(key for point in points for key in point if key not in _NO_METRICS)
    if wanted in counts:
        return wanted
    return min(counts, key=lambda key: (-counts[key], key), default=None)


def _tasks(trials: Sequence[Trial]) -> list[tuple[Trial, int, Outcome]]:
    return [(trial, index, outcome) for trial in trials for index, outcome in sorted(trial.outcomes.items())]


def _colour(trial: Trial) -> str:
    return {"stopped": STOPPED, "failed": FAILED}.get(trial.state, OTHER)


def _add(figure: Any, trial: Trial, curve: Curve, name: str, line: Mapping[str, Any]) -> None:
    if curve:
        figure.add_scatter(
            x=[place for place, _ in curve],
            y=[value for _, value in curve],
            name=name,
            meta=trial.number,
            line=line,
            # One evaluation does not make a line.
            mode="lines" if len(curve) > 1 else "markers",
            marker={"color": line["color"]},
        )
