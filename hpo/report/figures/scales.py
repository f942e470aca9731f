"""Draws two figures of a study with scales: the score over each hyperparameter, and the best score over cost."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from hpo.report.figures.axes import axis_of, log_ticks
from hpo.report.figures.style import GOOD, LEGEND, OTHER, STAR, Drawn, add_trials, new_figure, pale, styled
from hpo.report.formatting import escape_markup, point_text
from hpo.report.part import Missing, missing
from hpo.report.subject import Subject
from hpo.report.transfer import ScaleResults
from hpo.trials.space.dimensions import Dimension, Range, rank_of
from hpo.trials.trial import Trial, loss_of

_COLUMNS, _MOST_PANELS, _ROOM = 3, 12, 110
_MOST_BINS, _MOST_DOTS = 8, 100
_LONGEST_NAME = 40
_VISIBLE_SHARE = 0.7


def draw_transfer(subject: Subject) -> Drawn | Missing:
    """Draw one panel per ordered hyperparameter: scores over its values, with the best trial of each scale marked."""
    scale_results = subject.scale_results
    if scale_results is None:
        return missing("the study has no scales")
    if not any(scale_results.ranked):
        return missing("no trial is complete")
    keys = {key for ranked in scale_results.ranked for trial in ranked for key in trial.point}
    dimensions = [dimension for dimension in scale_results.ordered if dimension.key in keys]
    if not dimensions:
        return missing("no hyperparameter has values with an order")
    shown = dimensions[:_MOST_PANELS]
    rows = math.ceil(len(shown) / _COLUMNS)
    columns = math.ceil(len(shown) / rows)
    figure = new_figure(columns, num_rows=rows)
    for place, dimension in enumerate(shown):
        at = {"row": place // columns + 1, "col": place % columns + 1}
        _draw_panel(figure, subject, scale_results, dimension, at, has_legend=place == 0)
        figure.update_xaxes(axis_of(dimension, _ROOM // columns, _numbers(dimension, scale_results)), **at)
    _end_axis(figure, subject, _visible_losses(scale_results))
    figure.update_yaxes(title_text=f"{escape_markup(subject.metric)} ({subject.direction})", col=1)
    styled(figure, 110 + 290 * rows, legend=LEGEND)
    more = f" The first {len(shown)} of {len(dimensions)} hyperparameters." if len(dimensions) > len(shown) else ""
    return Drawn(
        figure,
        f"The {subject.metric_label} over each hyperparameter, one colour per scale, darker for larger ones. A dot is "
        f"a trial, a diamond is the best trial of its scale, and the star is the {subject.called}. A line joins the "
        f"best trials along the axis.{more} The worst trials are outside of the picture: double-click to see all.",
    )


def _draw_panel(
    figure: Any,
    subject: Subject,
    scale_results: ScaleResults,
    dimension: Dimension,
    at: dict[str, int],
    has_legend: bool,
) -> None:
    key = dimension.key
    for scale, ranked in enumerate(scale_results.ranked, start=1):
        trials = [trial for trial in ranked if key in trial.point]
        if not trials:
            continue
        name, colour = scale_name(scale_results, scale), scale_colour(scale, scale_results.target)
        group: dict[str, Any] = {"name": name, "legendgroup": name, **at}
        hover = f"%{{y}} (trial %{{customdata}})<extra>{name}</extra>"
        dots = {"color": colour, "size": 5, "opacity": 0.55}
        _add(figure, dimension, trials[:_MOST_DOTS], hover, marker=dots, showlegend=False, **group)
        line = {"mode": "lines", "line": {"color": colour, "width": 2}}
        envelope = _envelope(dimension, trials, scale_results.is_grid)
        _add(figure, dimension, envelope, hover, **line, showlegend=False, **group)
        mark = {"color": colour, "size": 11, "symbol": "diamond", "line": {"color": "white", "width": 1}}
        _add(figure, dimension, trials[:1], hover, marker=mark, showlegend=has_legend, **group)
    if (winner := subject.winner) is not None and key in winner.point:
        hover = f"%{{y}} (trial %{{customdata}})<extra>{subject.called}</extra>"
        look: dict[str, Any] = {"marker": STAR, "cliponaxis": False, "name": subject.called, "legendgroup": "winner"}
        _add(figure, dimension, [winner], hover, showlegend=has_legend, **look, **at)


def _add(figure: Any, dimension: Dimension, trials: Sequence[Trial], hover: str, **look: Any) -> None:
    add_trials(figure, trials, [_x(dimension, trial) for trial in trials], [t.score for t in trials], hover, **look)


def _x(dimension: Dimension, trial: Trial) -> Any:
    """Return a trial's position on the axis: its value if the dimension is a range, otherwise the rank of its value."""
    value = trial.point[dimension.key]
    return value if isinstance(dimension, Range) else rank_of(dimension.values, value)


def _envelope(dimension: Dimension, ranked: Sequence[Trial], is_grid: bool) -> list[Trial]:
    """Return the best trial in each of at most eight bins; the bins have equal widths on the axis.

    If `is_grid` is true, each tried value has its own bin instead. `ranked` has the best trial first.
    """
    units = {trial.number: dimension.to_unit(trial.point[dimension.key]) for trial in ranked}
    low, high = min(units.values()), max(units.values())
    count = max(2, min(_MOST_BINS, round(math.sqrt(2 * len(ranked)))))
    best: dict[float, Trial] = {}
    for trial in ranked:
        unit = units[trial.number]
        best.setdefault(unit if is_grid else min(int((unit - low) / (high - low or 1.0) * count), count - 1), trial)
    return [trial for _, trial in sorted(best.items())]


def _numbers(dimension: Dimension, scale_results: ScaleResults) -> list[float]:
    """Return all tried values of a range; an empty list for other dimensions."""
    if not isinstance(dimension, Range):
        return []
    return [
        value
        for ranked in scale_results.ranked
        for trial in ranked
        if isinstance(value := trial.point.get(dimension.key), int | float)
    ]


def _visible_losses(scale_results: ScaleResults) -> list[float]:
    """Return the lowest and the highest loss on the axis.

    The axis leaves out the worst trials, because they would flatten the differences between all other losses.

    The lowest loss is the smallest of the scales' best losses. For the highest loss, the function computes a distance
    d: about 70 % of all trials are at most d worse than the best trial at their scale. The highest loss is (the largest
    of the scales' best losses) + d.
    """
    bests = [ranked[0].loss for ranked in scale_results.ranked if ranked]
    behind = [trial.loss - ranked[0].loss for ranked in scale_results.ranked for trial in ranked]
    return [min(bests), max(bests) + float(np.quantile(behind, _VISIBLE_SHARE))]


def _end_axis(figure: Any, subject: Subject, losses: Sequence[float]) -> None:
    """Limit the axis of scores to the range from the lowest to the highest of `losses`, with a margin."""
    low, high = sorted(loss_of(loss, subject.direction) for loss in (min(losses), max(losses)))
    margin = 0.08 * (high - low) or 0.05 * abs(low) or 0.05
    figure.update_yaxes(range=[low - margin, high + margin])


def draw_loss_over_cost(subject: Subject) -> Drawn | Missing:
    """Draw the best score of each scale over the cost of a training.

    Also draw the power law, and its prediction of the best score at the target scale.
    """
    scale_results = subject.scale_results
    if scale_results is None:
        return missing("the study has no scales")
    known = [
        (cost, ranked)
        for cost, ranked in zip(scale_results.costs, scale_results.ranked, strict=True)
        if cost and ranked
    ]
    if not known:
        return missing("no trial is complete, or the cost of a training is not known")
    figure, metric = new_figure(), escape_markup(subject.metric)
    best = [ranked[0] for _, ranked in known]
    x = [cost for cost, _ in known]
    others = [(cost, trial) for cost, ranked in known for trial in ranked[1:_MOST_DOTS]]
    hover = "%{y} (trial %{customdata})<extra></extra>"
    trials = [trial for _, trial in others]
    dots = {"color": OTHER, "size": 5, "opacity": 0.6}
    scores = [trial.score for trial in trials]
    add_trials(figure, trials, [cost for cost, _ in others], scores, hover, marker=dots, name="trials")
    marks = [scale_colour(trial.scale, scale_results.target) for trial in best]
    look = {"mode": "lines+markers", "line": {"color": GOOD, "width": 2}, "marker": {"color": marks, "size": 10}}
    add_trials(figure, best, x, [trial.score for trial in best], hover, name="best of each scale", **look)
    law, ends = scale_results.law, [cost for cost in scale_results.costs if cost]
    prediction = f"There is no prediction for the target: {scale_results.no_law}."
    if law is not None:
        grid = np.geomspace(ends[0], ends[-1], 40).tolist()
        line = {"color": OTHER, "dash": "dash", "width": 2}
        figure.add_scatter(x=grid, y=[law.at(cost) for cost in grid], mode="lines", line=line, name="power law")
        error = {"type": "data", "symmetric": False, "color": OTHER}
        error |= {"array": [law.high - law.predicted], "arrayminus": [law.predicted - law.low]}
        marker = {"color": OTHER, "size": 11, "symbol": "diamond-open"}
        figure.add_scatter(
            x=[ends[-1]],
            y=[law.predicted],
            error_y=error,
            mode="markers",
            marker=marker,
            name="predicted",
            hovertemplate=f"%{{y}} ({law.low:.4g} to {law.high:.4g})<extra>predicted</extra>",
        )
        prediction = (
            f"The dashed line is a power law, fitted to the best trials of the scales below the target: "
            f"loss = {law.factor:.4g} * cost^-{law.exponent:.3g}. The hollow diamond is the prediction for the target, "
            f"with the 95 % interval. There are too few scales to also fit an irreducible loss."
        )
    losses = _visible_losses(scale_results)
    if law is not None:
        # Limit a wide interval, which would flatten everything else.
        room = 2 * (losses[1] - losses[0])
        losses += [law.predicted, max(law.low, losses[0] - room), min(law.high, losses[1] + room)]
    _end_axis(figure, subject, losses)
    figure.update_yaxes(title_text=f"{metric} ({subject.direction})")
    styled(figure, legend=LEGEND)
    figure.update_xaxes(title_text="cost of a training, relative to the first scale (log)", **log_ticks(ends))
    return Drawn(figure, f"The best {subject.metric_label} of each scale over the cost of a training. {prediction}")


def scale_name(scale_results: ScaleResults, scale: int) -> str:
    """Return the name of a scale in a legend."""
    text = f"{scale}: {point_text(scale_results.changes[scale - 1])}"
    text = text if len(text) <= _LONGEST_NAME else f"{text[: _LONGEST_NAME - 1]}…"
    return escape_markup(f"{text}{' (target)' * (scale == scale_results.target)}")


def scale_colour(scale: int, target: int) -> str:
    """Return the colour of a scale: darker for a larger scale, and visible on white and on black."""
    return pale(GOOD, 0.4 + 0.6 * (scale - 1) / max(1, target - 1))
