"""The best score so far over trials and over time, and the expected best score of a random search."""

from collections.abc import Iterator
from typing import Any

from hpo.engine.strategies.drawing.shift import ranked_points
from hpo.formatting import format_count
from hpo.report.figures.axes import TimeAxis, leave_out_far, log_ticks, time_unit
from hpo.report.figures.scales import scale_colour, scale_name
from hpo.report.figures.style import (
    GOOD,
    LEGEND,
    OTHER,
    STAR,
    Drawn,
    add_band,
    add_trials,
    best_and_even,
    new_figure,
    pale,
    sampled,
    styled,
)
from hpo.report.formatting import escape_markup
from hpo.report.part import Missing, is_missing, missing
from hpo.report.sections.curves import DRAWN, describe_expected, improvements
from hpo.report.subject import Subject, score_of
from hpo.trials.trial import Trial

_MOST = 1_000
_Places = list[tuple[float, Trial]]


def draw_best_so_far(subject: Subject) -> Drawn | Missing:
    """Draw the scores of the trials, and a step line of the best score so far.

    The first panel shows the trials by number, the second panel by end time. Each scale has a separate line.
    """
    if not subject.scored:
        return missing("no trial is complete")
    axis = TimeAxis.of([outcome for _, _, outcome in subject.outcomes], subject.stretches)
    scored = subject.scored
    if subject.scale_results is not None:
        # Imported trials have negative numbers, and no place among this study's trials.
        own = ([t for t in trials if t.number >= 0] for trials in subject.scale_results.by_scale)
        scored = [t for trials in own for t in ranked_points(trials)]
    by_number = sorted(((float(subject.places[t.number]), t) for t in scored), key=_place_key)
    by_end = sorted(((axis.at(t.ended), t) for t in scored if t.ended is not None), key=_place_key)
    unit, name = time_unit(by_end[-1][0] if by_end else 0.0)
    panels = {"trial": by_number, f"{name} since the start": [(at / unit, t) for at, t in by_end]}
    figure = new_figure(2 if by_end else 1)
    drawn = best_and_even(scored, _MOST)
    visible = {trial.number for trial in drawn}
    for column, (title, places) in enumerate(panels.items(), start=1):
        if places:
            _draw_panel(figure, subject, [p for p in places if p[1].number in visible], places, column)
            figure.update_xaxes(title_text=title, rangemode="tozero", row=1, col=column)
    # Plotly's default ticks would have fractions.
    figure.update_xaxes(dtick=1 if len(subject.trials) < 10 else None, col=1)
    paused = axis.mark_pauses(figure, unit, row=1, col=2) if by_end else ""
    best = min(subject.within_limits or subject.scored, key=lambda t: t.loss)
    always = [score_of(trial) for trial in (best, subject.ranked[0])]
    far = leave_out_far(figure, [score_of(trial) for trial in scored], always)
    figure.update_yaxes(title_text=f"{escape_markup(subject.metric)} ({subject.direction})", row=1, col=1)
    styled(figure, legend=LEGEND)
    failed = sum(trial.state == "failed" for trial in subject.trials)
    without = f" {format_count(failed, 'trial*')} failed, without a score." if failed else ""
    has_exceeding = len(subject.within_limits) < len(subject.scored)
    within = " Trials that exceed a limit have dots, but do not count for the line." * has_exceeding
    which = (
        subject.scored_text
        if subject.scale_results is None
        else f"{format_count(len(scored), 'complete trial*')}, with one line per scale"
    )
    caption = f"Best {subject.metric_label} so far over {which}.{without}{within}"
    return Drawn(figure, caption + sampled(drawn, scored) + far + paused)


def _draw_panel(figure: Any, subject: Subject, dots: _Places, places: _Places, column: int) -> None:
    won = [(place, trial) for place, trial in places if subject.is_winner(trial)]
    # Do not clip the star if it is on an axis.
    star = {"marker": STAR, "cliponaxis": False}
    look = {"marker": {"color": OTHER, "size": 5, "opacity": 0.6}}
    lines = [(name, *_steps(points, colour)) for name, colour, points in _by_scale(subject, places)]
    for name, drawn, style in (("trials", dots, look), *lines, (subject.called, won, star)):
        trials = [trial for _, trial in drawn]
        x, y = [place for place, _ in drawn], [trial.score for trial in trials]
        hover = f"{name}: %{{y}} (trial %{{customdata}})<extra></extra>"
        legend = {"name": name, "legendgroup": name, "showlegend": column == 1}
        add_trials(figure, trials, x, y, hover, row=1, col=column, **legend, **style)


def _by_scale(subject: Subject, places: _Places) -> Iterator[tuple[str, str, _Places]]:
    """Yield the name, the colour and the trials of each line.

    Each scale has its own line, because scores of different scales are not comparable.
    """
    scale_results = subject.scale_results
    if scale_results is None:
        yield "best so far", GOOD, places
        return
    for scale in sorted({trial.scale for _, trial in places}):
        of_scale = [place for place in places if place[1].scale == scale]
        yield f"best at {scale_name(scale_results, scale)}", scale_colour(scale, scale_results.target), of_scale


def _steps(places: _Places, colour: str) -> tuple[_Places, dict[str, Any]]:
    """Return the corners and the style of the line that shows the best score so far."""
    better = {trial.number for trial in improvements(trial for _, trial in places if trial.keeps_limits)}
    steps = [place for place in places if place[1].number in better]
    # Extend the line of the last best score to the end of the axis.
    ends = [*steps, *((places[-1][0], trial) for _, trial in steps[-1:])]
    return ends, {"mode": "lines", "line": {"color": colour, "width": 2.5, "shape": "hv"}}


def _place_key(place: tuple[float, Trial]) -> tuple[float, int]:
    return place[0], place[1].number


_LOOK = {
    "unbiased": ("unbiased estimate (Tang et al. 2020)", GOOD, "solid"),
    "biased": ("biased estimate (Dodge et al. 2019)", OTHER, "dash"),
}


def draw_expected_performance(subject: Subject) -> Drawn | Missing:
    """Draw two estimates of a random search's expected best score over the number of its trials.

    Each estimate has a line, and a band that shows the standard deviation.
    """
    scores = subject.drawn_scores
    curves = describe_expected(subject.strategy, scores, subject.direction, subject.is_extension)
    if is_missing(curves):
        return curves
    figure = new_figure()
    for curve in (curves["unbiased"], curves["biased"]):
        name = curve["estimator"]
        title, colour, dash = _LOOK[name]
        budgets, means, spreads = curve["budgets"], curve["means"], curve["spreads"]
        low, high = ([m + sign * spread for m, spread in zip(means, spreads, strict=True)] for sign in (-1, 1))
        add_band(figure, budgets, low, high, fillcolor=pale(colour, 0.12), line={"width": 0}, legendgroup=name)
        line = {"color": colour, "dash": dash, "width": 2.5}
        mode = "lines+markers" if len(budgets) < 3 else "lines"
        figure.add_scatter(x=budgets, y=means, mode=mode, line=line, name=title, legendgroup=name)
    styled(figure, hovermode="x unified", legend=LEGEND)
    figure.update_xaxes(title_text="complete trials (log)", **log_ticks(curves["unbiased"]["budgets"]))
    far = leave_out_far(figure, scores, [curves["unbiased"]["means"][-1]])
    figure.update_yaxes(title_text=f"expected best {escape_markup(subject.metric)}")
    return Drawn(
        figure,
        f"Two estimates of the best {subject.metric_label} that a random search is expected to find, against its "
        f"number of trials. A band is ± the standard deviation between searches. {DRAWN} The curves end at half of "
        f"these {len(scores):,} trials, because estimates for a larger search depend mostly on the best trial.{far}",
    )
