"""The front of several metrics, with its limits."""

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
from hpo.report.part import Absent
from hpo.report.sections.scores import Spread, spreads
from hpo.report.subject import Subject
from hpo.trials.goal import Goal, Limit
from hpo.trials.trial import Trial

_MOST, _COLUMNS = 400, 3
_LOG = 100.0  # the largest value over the smallest, from which an axis is logarithmic
_REACH, _MARGIN = 0.3, 0.06  # shares of an axis: how far intervals and limits may lengthen it, and what is left free


@dataclass(frozen=True)
class _Axis:
    """A metric, or what has a limit: the values of the trials by their numbers, and the intervals of some.

    `always` are the numbers of those that must be seen.
    """

    name: str
    values: Mapping[int, float]
    intervals: Mapping[int, list[float]]
    limits: Sequence[Limit]
    always: Sequence[int]
    is_maximized: bool

    @cached_property
    def is_log(self) -> bool:
        """Whether small values are what matters, over several powers of ten."""
        least = min(self.values.values())
        return not self.is_maximized and least > 0 and max(self.values.values()) / least >= _LOG

    @cached_property
    def _near(self) -> tuple[float, float]:
        """The ends without what lies far out, but with what must be seen."""
        places = [self._place(value) for value in self.values.values()]
        least, most = min(places), max(places)
        bounds = [self._place(limit.bound) for limit in self.limits if self._can_be(limit.bound)]
        seen = [self._place(self.values[number]) for number in self.always if number in self.values]
        seen += [bound for bound in bounds if least <= bound <= most]
        seen += (least, most) if self.is_log else fence(places)
        return min(seen), max(seen)

    @cached_property
    def visible(self) -> list[Limit]:
        """The limits that are not far from all trials."""
        low, high = self._longer
        return [each for each in self.limits if self._can_be(each.bound) and low <= self._place(each.bound) <= high]

    @cached_property
    def ends(self) -> list[float]:
        """The ends of the axis as plotly takes them; of a logarithmic one as powers."""
        low, high = self._near
        least, most = self._longer
        ends = [end for both in self.intervals.values() for end in both if self._can_be(end)]
        places = [self._place(end) for end in (*ends, *(limit.bound for limit in self.visible))]
        inside = [low, high, *(min(max(place, least), most) for place in places)]
        margin = _MARGIN * (max(inside) - min(inside)) or 0.05 * abs(high) or 0.05
        return [min(inside) - margin, max(inside) + margin]

    @property
    def num_far(self) -> int:
        low, high = self.ends
        return sum(not low <= self._place(value) <= high for value in self.values.values())

    def error(self, trials: Sequence[Trial]) -> dict[str, Any] | None:
        """Return the bars of these trials' intervals; None where none of them has one."""
        if not any(self.intervals.values()):
            return None
        above, below = [], []
        for trial in trials:
            value = self.values[trial.number]
            low, high = self.intervals.get(trial.number) or (value, value)
            above.append(high - value)
            # On a logarithmic axis there is nothing at 0.
            below.append(min(value - low, 0.9 * value) if self.is_log else value - low)
        return {"type": "data", "symmetric": False, "array": above, "arrayminus": below, "color": GOOD, "width": 3}

    def layout(self, goal: Goal) -> dict[str, Any]:
        """Return title, ends and ticks as plotly takes them."""
        direction = goal.metrics.get(self.name)
        title = escape_markup(self.name) + (f" ({direction})" if direction else "") + " (log)" * self.is_log
        return {
            "title_text": title,
            "range": self.ends,
            **(log_ticks([10**end for end in self.ends], 5) if self.is_log else {}),
        }

    @property
    def _longer(self) -> tuple[float, float]:
        low, high = self._near
        more = _REACH * (high - low)
        return low - more, high + more

    def _can_be(self, value: float) -> bool:
        return value > 0 or not self.is_log

    def _place(self, value: float) -> float:
        return math.log10(value) if self.is_log else value


def draw_front(subject: Subject) -> Drawn | Absent:
    """Draw each pair of metrics, and the leading one over each number that has a limit."""
    goal = subject.goal
    if goal.is_single:
        return Absent("one metric alone decides")
    if not subject.scored:
        return Absent("no trial is complete")
    others = [name for name in goal.names if name not in goal.metrics]
    pairs = [*itertools.combinations(goal.metrics, 2), *((goal.metric, name) for name in others)]
    if not pairs:
        return Absent("the limit is one of the metric itself")
    members = subject.front if len(goal.metrics) > 1 else []
    special = {trial.number for trial in (*members, *([] if subject.winner is None else [subject.winner]))}
    common = [trial for trial in subject.scored if trial.number not in special]
    sample = best_and_even(common, _MOST)
    drawn = [trial for trial in subject.scored if trial.number in special] + sample
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
    """Return the axis of a metric, or of what has a limit; `scores` are those of the front, by the trials' numbers."""
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
        # From the best across to the worst: the height that is held was reached before.
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
    """Return a point in lines, broken between its values."""
    lines = [""]
    for part in text.split(", "):
        longer = f"{lines[-1]}, {part}" if lines[-1] else part
        lines = [*lines[:-1], longer] if len(longer) <= most else [*lines, part]
    return lines


def _caption(subject: Subject, axes: Mapping[str, _Axis]) -> str:
    goal, winner = subject.goal, subject.winner
    text = f"{subject.which}; the star is the {subject.called}." if winner is not None else f"{subject.which}."
    if len(goal.metrics) > 1:
        blue = "Blue: the front" if subject.front else "There is no front: no trial keeps the limits"
        text += f" {blue}" + (", of which none is as good in all metrics and better in one." if subject.front else ".")
        if subject.front and any(axis.intervals for axis in axes.values()):
            text += " Bars: 95 % intervals over folds and seeds."
    if len(goal.metrics) > 2:
        text += " What seems dominated in one panel is better in another metric."
    if goal.limits:
        hidden = [str(each) for axis in axes.values() for each in axis.limits if each not in axis.visible]
        text += f" Dashed: the limits ({join_names([*map(str, goal.limits)])}); hollow: beyond one."
        text += f" Outside of the picture: {join_names(hidden)}." if hidden else ""
    if any(axis.num_far for axis in axes.values()):
        text += " Values far out lie beyond the picture: double-click to see all."
    return text
