"""Draws the trials in each pair of metrics, with the Pareto front and the limits."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from hpo.report.figures.axes import fence, log_ticks
from hpo.report.figures.style import (
    GOOD,
    LEGEND,
    OTHER,
    STAR,
    Drawn,
    add_trials,
    best_and_even,
    new_figure,
    sampled,
    styled,
)
from hpo.report.formatting import escape_markup, join_names, point_text
from hpo.report.part import Missing, missing
from hpo.report.sections.scores import Spread, spreads
from hpo.report.subject import Subject
from hpo.trials.goal import Goal, Limit
from hpo.trials.trial import Trial

_MOST, _COLUMNS = 400, 3
_LOG = 100.0  # least ratio of the largest to the smallest value for a logarithmic axis
_REACH, _MARGIN = 0.3, 0.06  # as shares of an axis: the most that intervals and limits may extend it, and its margin


@dataclass(frozen=True)
class _Axis:
    """The axis of a metric, or of another value that every training returns.

    `values` has the value of each trial, by trial number. `intervals` has the 95 % interval of each value, by trial
    number. The axis always shows the trials whose numbers are in `always`.
    """

    name: str
    values: Mapping[int, float]
    intervals: Mapping[int, list[float]]
    limits: Sequence[Limit]
    always: Sequence[int]
    is_maximized: bool

    @cached_property
    def is_log(self) -> bool:
        """Whether the values are positive, not maximized, and span at least a factor of 100."""
        least = min(self.values.values())
        return not self.is_maximized and least > 0 and max(self.values.values()) / least >= _LOG

    @cached_property
    def _near(self) -> tuple[float, float]:
        """The ends of the axis. They exclude outliers on a linear axis, but include all trials in `always`."""
        places = [self._place(value) for value in self.values.values()]
        least, most = min(places), max(places)
        bounds = [self._place(limit.bound) for limit in self.limits if self._is_drawable(limit.bound)]
        inside = [self._place(self.values[number]) for number in self.always if number in self.values]
        inside += [bound for bound in bounds if least <= bound <= most]
        inside += (least, most) if self.is_log else fence(places)
        return min(inside), max(inside)

    @cached_property
    def visible(self) -> list[Limit]:
        """The limits that are close enough to the trials to be drawn."""
        low, high = self._extended
        return [
            each for each in self.limits if self._is_drawable(each.bound) and low <= self._place(each.bound) <= high
        ]

    @cached_property
    def ends(self) -> list[float]:
        """The ends of the axis in plotly's form: exponents for a logarithmic axis."""
        low, high = self._near
        least, most = self._extended
        ends = [end for both in self.intervals.values() for end in both if self._is_drawable(end)]
        places = [self._place(end) for end in (*ends, *(limit.bound for limit in self.visible))]
        inside = [low, high, *(min(max(place, least), most) for place in places)]
        margin = _MARGIN * (max(inside) - min(inside)) or 0.05 * abs(high) or 0.05
        return [min(inside) - margin, max(inside) + margin]

    @property
    def num_far(self) -> int:
        low, high = self.ends
        return sum(not low <= self._place(value) <= high for value in self.values.values())

    def error(self, trials: Sequence[Trial]) -> dict[str, Any] | None:
        """Return the error bars of these trials; None if none of these trials has an interval."""
        if not any(self.intervals.values()):
            return None
        above, below = [], []
        for trial in trials:
            value = self.values[trial.number]
            low, high = self.intervals.get(trial.number) or (value, value)
            above.append(high - value)
            # On a logarithmic axis, keep the lower end of the bar above 0.
            below.append(min(value - low, 0.9 * value) if self.is_log else value - low)
        return {"type": "data", "symmetric": False, "array": above, "arrayminus": below, "color": GOOD, "width": 3}

    def layout(self, goal: Goal) -> dict[str, Any]:
        """Return the title, ends and ticks of the axis in plotly's form."""
        direction = goal.metrics.get(self.name)
        title = escape_markup(self.name) + (f" ({direction})" if direction else "") + " (log)" * self.is_log
        return {
            "title_text": title,
            "range": self.ends,
            **(log_ticks([10**end for end in self.ends], 5) if self.is_log else {}),
        }

    @property
    def _extended(self) -> tuple[float, float]:
        low, high = self._near
        more = _REACH * (high - low)
        return low - more, high + more

    def _is_drawable(self, value: float) -> bool:
        return value > 0 or not self.is_log

    def _place(self, value: float) -> float:
        return math.log10(value) if self.is_log else value


def draw_front(subject: Subject) -> Drawn | Missing:
    """Draw a panel for each pair of metrics.

    Also draw a panel for each value in `goal.names` that is not a metric, such as a latency with a limit. Such a panel
    plots the first metric against this value.
    """
    goal = subject.goal
    if goal.is_single:
        return missing("the study has one metric only")
    if not subject.scored:
        return missing("no trial is complete")
    others = [name for name in goal.names if name not in goal.metrics]
    pairs = [*itertools.combinations(goal.metrics, 2), *((goal.metric, name) for name in others)]
    if not pairs:
        return missing("the study has only one metric, and every limit applies to that metric")
    members = subject.front if len(goal.metrics) > 1 else []
    special = {trial.number: trial for trial in (*members, *([] if subject.winner is None else [subject.winner]))}
    common = [trial for trial in subject.scored if trial.number not in special]
    sample = best_and_even(common, _MOST)
    # If the trials in `scored` exceed a limit, the front's trials have less training and are not among them.
    drawn = [special[number] for number in sorted(special)] + sample
    scores = {member.number: spreads(member, goal) for member in members}
    axes = {name: _axis(goal, name, drawn, scores, sorted(special)) for name in goal.names}
    columns = min(_COLUMNS, len(pairs))
    rows = math.ceil(len(pairs) / columns)
    figure = new_figure(columns, num_rows=rows, is_shared=False)
    for place, (up, across) in enumerate(pairs):
        at = {"row": place // columns + 1, "col": place % columns + 1}
        _draw_panel(figure, subject, drawn, (axes[across], axes[up]), members, at, has_legend=place == 0)
    styled(figure, 440 if rows == 1 else 60 + 360 * rows, legend=LEGEND, hovermode="closest")
    return Drawn(figure, _caption(subject, axes) + sampled(sample, common))


def _axis(
    goal: Goal,
    name: str,
    drawn: Sequence[Trial],
    scores: Mapping[int, Mapping[str, Spread]],
    always: Sequence[int],
) -> _Axis:
    """Return the axis for `name`, which is one of `goal.names`; `scores` has the scores of the front's trials."""
    intervals = {number: values[name]["interval"] for number, values in scores.items()}
    return _Axis(
        name,
        {trial.number: trial.mean(name) for trial in drawn},
        {number: interval for number, interval in intervals.items() if interval is not None},
        [limit for limit in goal.limits if limit.metric == name],
        always,
        goal.metrics.get(name) == "maximize",
    )


def _draw_panel(
    figure: Any,
    subject: Subject,
    drawn: Sequence[Trial],
    axes: tuple[_Axis, _Axis],
    members: Sequence[Trial],
    at: Mapping[str, int],
    has_legend: bool,
) -> None:
    x, y = axes
    numbers = {member.number for member in members}
    groups: dict[str, list[Trial]] = {
        "exceeds a limit": [trial for trial in drawn if not trial.keeps_limits],
        "dominated" if members else "within the limits": [
            trial
            for trial in drawn
            if trial.keeps_limits and trial.number not in numbers and not subject.is_winner(trial)
        ],
        # In reverse order, because the line's steps keep the height of the previous trial.
        "front": list(reversed(members)),
        subject.called: [trial for trial in drawn if subject.is_winner(trial)],
    }
    is_line = len(subject.goal.metrics) == 2 and x.name in subject.goal.metrics
    looks: dict[str, dict[str, Any]] = {
        "exceeds a limit": {"marker": {"color": OTHER, "size": 7, "symbol": "circle-open", "opacity": 0.8}},
        "front": {
            "mode": "lines+markers" if is_line else "markers",
            "marker": {"color": GOOD, "size": 8},
            "line": {"color": GOOD, "width": 2, "shape": "hv"},
            "error_x": x.error(groups["front"]),
            "error_y": y.error(groups["front"]),
        },
        subject.called: {"marker": STAR | {"size": 15}, "cliponaxis": False},
    }
    for name, trials in groups.items():
        if trials:
            look = looks.get(name, {"marker": {"color": OTHER, "size": 6, "opacity": 0.45}})
            across, up = ([axis.values[trial.number] for trial in trials] for axis in axes)
            legend = {"name": name, "legendgroup": name, "showlegend": has_legend}
            hovers = [_hover(subject.goal, trial) for trial in trials]
            add_trials(
                figure, trials, across, up, "%{hovertext}<extra></extra>", hovertext=hovers, **legend, **look, **at
            )
    line = {"line_dash": "dash", "line_color": STAR["color"], "line_width": 1.5, **at}
    for limit in x.visible:
        figure.add_vline(x=limit.bound, **line)
    for limit in y.visible:
        figure.add_hline(y=limit.bound, **line)
    figure.update_xaxes(x.layout(subject.goal), **at)
    figure.update_yaxes(y.layout(subject.goal), **at)


def _hover(goal: Goal, trial: Trial) -> str:
    values = [f"{name}: {trial.mean(name):.5g}" for name in goal.names]
    return "<br>".join(map(escape_markup, [f"trial {trial.number}", *values, *_lines(point_text(trial.point))]))


def _lines(text: str, most: int = 60) -> list[str]:
    """Split the text of a point into lines of at most `most` characters; do not split any value."""
    lines = [""]
    for part in text.split(", "):
        longer = f"{lines[-1]}, {part}" if lines[-1] else part
        lines = [*lines[:-1], longer] if len(longer) <= most else [*lines, part]
    return lines


def _caption(subject: Subject, axes: Mapping[str, _Axis]) -> str:
    goal, winner = subject.goal, subject.winner
    within = " within the limits" * bool(goal.limits)
    star = "" if winner is None else f"; the star is the {subject.called}"
    text = f"{subject.scored_text}{star}."
    if len(goal.metrics) > 1:
        blue = "Blue: the front" if subject.front else "There is no front: no trial keeps the limits"
        text += f" {blue}" + (f", which no other trial{within} dominates." if subject.front else ".")
        if subject.front and any(axis.intervals for axis in axes.values()):
            text += " Bars: 95 % intervals over folds and seeds."
    if len(goal.metrics) > 2:
        text += (
            f" If a trial of the front seems dominated by a trial{within} in one panel, the trial of the front is "
            "better in another metric."
        )
    if goal.limits:
        hidden = [str(each) for axis in axes.values() for each in axis.limits if each not in axis.visible]
        text += f" The dashed lines are the limits ({join_names([*map(str, goal.limits)])})."
        text += " Hollow trials exceed a limit."
        text += f" Outside of the picture: {join_names(hidden)}." if hidden else ""
    if any(axis.num_far for axis in axes.values()):
        text += " Outliers are outside of the picture: double-click to see all."
    return text
