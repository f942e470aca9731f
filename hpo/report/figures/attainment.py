"""Figures of several metrics: the hypervolume of a study's front, and the attainment of compared searches."""

from collections.abc import Sequence
from typing import Any

from hpo.report.comparison import ComparisonJson
from hpo.report.figures.style import GOOD, LEGEND, OTHER, PALETTE, Drawn, add_band, add_trials, new_figure, pale, styled
from hpo.report.formatting import escape_markup, join_names
from hpo.report.part import Missing, missing
from hpo.report.subject import Subject
from hpo.trials.fronts import REFERENCE


def draw_hypervolume(subject: Subject) -> Drawn | Missing:
    """Draw the front's hypervolume and the expected hypervolume of a random search, both over the number of trials."""
    goal = subject.goal
    if len(goal.metrics) == 1:
        return missing("the study has one metric only")
    grown, reason = subject.growth, subject.why_no_expectation
    if not grown.trials:
        return missing("no trial keeps the limits" if goal.limits and subject.scored else "no trial is complete")
    figure = new_figure()
    if reason is None:
        mean = subject.expected_growth
        low, high = (
            [m + sign * spread for m, spread in zip(mean.means, mean.spreads, strict=True)] for sign in (-1, 1)
        )
        add_band(figure, mean.budgets, low, high, fillcolor=pale(OTHER, 0.25), line={"width": 0}, legendgroup="random")
        line = {"color": OTHER, "dash": "dash", "width": 2}
        name = "random search, on average"
        mode = "lines+markers" if len(mean.budgets) < 3 else "lines"
        figure.add_scatter(x=mean.budgets, y=mean.means, mode=mode, line=line, name=name, legendgroup="random")
    # Count trials from 1, as the random search does.
    places = [subject.places[trial.number] + 1 for trial in grown.trials]
    ends = [*grown.trials, grown.trials[-1]]
    x = [*places, max(len(subject.places), *places)]
    hover = "%{y:.4f} (trial %{customdata})<extra></extra>"
    line = {"color": GOOD, "width": 2.5, "shape": "hv"}
    y = [*grown.volumes, grown.volumes[-1]]
    add_trials(figure, ends, x, y, hover, mode="lines", line=line, name="this search")
    styled(figure, legend=LEGEND)
    figure.update_xaxes(title_text="trials", rangemode="tozero")
    figure.update_yaxes(title_text="hypervolume (maximize)", rangemode="tozero")
    caption = (
        f"Hypervolume that the front dominates in {join_names(list(goal.metrics))}. Each metric is scaled from the "
        f"best (0) to the worst (1) trial{' within the limits' * bool(goal.limits)}. The reference point is "
        f"{REFERENCE} in each metric, so the hypervolume is at most {REFERENCE ** len(goal.metrics):.4g}."
    )
    if reason is None:
        caption += (
            " The dashed line is the mean hypervolume of random searches that draw from these trials without "
            "replacement; the band is ± the standard deviation. Both end at half of the trials. For larger "
            "searches, the mean is unreliable, because it depends mostly on the few best trials."
        )
    else:
        caption += f" The curve of a random search is missing: {reason}."
    return Drawn(figure, caption)


_COLOURS = [colour for name, colour in PALETTE.items() if name != "black"]
_DASHES = ("solid", "dash", "dot", "dashdot")
_MARGIN = 0.05

Corners = Sequence[Sequence[float]]


def draw_attainment(result: ComparisonJson) -> Any:
    """Return one figure with the attainment of all strategies; in a comparison of studies, with all studies' fronts.

    Return None if there is no front, or if the comparison has more than two metrics.
    """
    fronts = result.get("fronts")
    by_label = fronts.get("attainment", {}) if fronts else {}
    corners = [corner for levels in by_label.values() for level in levels.values() for corner in level]
    if not fronts or not corners:
        return None
    metrics = fronts["metrics"]
    ends = [
        _ends([corner[place] for corner in corners], direction == "maximize")
        for place, direction in enumerate(metrics.values())
    ]
    worst = (ends[0][0], ends[1][0])
    figure = new_figure()
    for place, (label, levels) in enumerate(by_label.items()):
        colour, dash = _COLOURS[place % len(_COLOURS)], _DASHES[place // len(_COLOURS) % len(_DASHES)]
        quarter, half, three_quarters = (_staircase(levels.get(level, ()), worst) for level in ("25", "50", "75"))
        if quarter:
            # The band is between the staircases that a quarter and three quarters of the searches attain. Without the
            # latter it extends to the ends of the axes.
            outline = [*quarter, *reversed(three_quarters or [worst])]
            across, upwards = zip(*outline, strict=True)
            look = {"fill": "toself", "fillcolor": pale(colour), "line": {"width": 0}, "mode": "lines"}
            figure.add_scatter(x=across, y=upwards, hoverinfo="skip", showlegend=False, legendgroup=label, **look)
        if half:
            across, upwards = zip(*half, strict=True)
            line = {"color": colour, "dash": dash, "width": 2.5}
            name = escape_markup(label)
            figure.add_scatter(x=across, y=upwards, mode="lines", line=line, name=name, legendgroup=label)
    axes = [
        {"title": {"text": f"{escape_markup(name)} ({direction})"}, "range": sorted(end)}
        for (name, direction), end in zip(metrics.items(), ends, strict=True)
    ]
    look = {"margin": {"t": 20, "r": 20, "b": 60, "l": 80}, "font": {"size": 14}, "hovermode": "closest"}
    return styled(figure, 460, xaxis=axes[0], yaxis=axes[1], legend=LEGEND, showlegend=True, **look)


def _ends(values: Sequence[float], is_maximized: bool) -> tuple[float, float]:
    """Return the two ends of an axis that contains the values; the end for worse values comes first."""
    low, high = min(values), max(values)
    margin = _MARGIN * (high - low) or abs(high) * _MARGIN or 1.0
    return (low - margin, high + margin) if is_maximized else (high + margin, low - margin)


def _staircase(corners: Corners, worst: tuple[float, float]) -> list[tuple[float, float]]:
    """Return the vertices of a staircase line through the corners; it begins and ends at the axes' worst values."""
    if not corners:
        return []
    line = [(corners[0][0], worst[1])]
    for (first, second), after in zip(corners, [*corners[1:], worst], strict=True):
        line += [(first, second), (after[0], second)]
    return line
