"""The axes of figures: for a hyperparameter, for scores without outliers, and for a search's time without pauses."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from hpo.formatting import format_count, format_duration
from hpo.report.formatting import escape_markup
from hpo.report.sections.cost import stretch_runs
from hpo.trials.record.record import Stretch
from hpo.trials.space.dimensions import Dimension, Range
from hpo.trials.trial import Outcome, Trial

_LONGEST_NAME, _MOST_POWERS = 30, 4
_FAR = 3.0  # times the interquartile range: Tukey's outer fence; values beyond it are outliers

# The time axis leaves out every pause between two sessions, and any other pause longer than both limits below.
# Otherwise a study resumed the next day would be two strips at the ends of an empty picture.
_SHARE = 0.1  # a share of the running time
_SECONDS = 60.0
_MOST_MARKS = 50


def axis_of(dimension: Dimension, room: int, values: Sequence[float] = (), has_names: bool = False) -> dict[str, Any]:
    """Return plotly's settings for the title and the ticks of a dimension's axis.

    The ticks of a logarithmic range cover `values`, or the ends of the range if `values` is empty.

    If the dimension has finitely many values, a value's position on the axis is its rank among these values. If
    `has_names` is true, the axis has the texts of the values as categories instead of ranks. All tick texts together
    have at most `room` characters.
    """
    title = {"title_text": escape_markup(short(dimension.key, _LONGEST_NAME)), "tickangle": 0}
    if not isinstance(dimension, Range):
        ticks = few_ticks(texts(dimension), room)
        if not has_names:
            return title | ticks
        names = [escape_markup(text) for text in texts(dimension)]
        ticks["tickvals"] = [names[rank] for rank in ticks["tickvals"]]
        return {**title, **ticks, "type": "category", "categoryorder": "array", "categoryarray": names}
    if not dimension.log:
        return title
    ticks = log_ticks(values or (dimension.low, dimension.high), _MOST_POWERS)
    return title | ticks | {"title_text": f"{title['title_text']} (log)"}


def values_of(dimension: Dimension, trials: Sequence[Trial]) -> dict[int, Any]:
    """Return each trial's value of a dimension, by trial number; leave out trials without such a value."""
    return {trial.number: trial.point[dimension.key] for trial in trials if dimension.key in trial.point}


def texts(dimension: Dimension) -> list[str]:
    """Return a text for each value of a dimension with finitely many values; different values have different texts."""
    values = dimension.values
    formats = [[f"{v:{digits}}" if type(v) is float else str(v) for v in values] for digits in (".3g", ".6g")]
    # Take the shortest format in which all texts differ; a number and a text may look the same.
    return next((names for names in formats if len(set(names)) == len(names)), [repr(v) for v in values])


def short(text: str, most: int) -> str:
    """Return the text; if it has more than `most` characters, return its end, because the end distinguishes names."""
    return text if len(text) <= most else f"…{text[len(text) - most + 1 :]}"


def few_ticks(texts: Sequence[str], room: int) -> dict[str, Any]:
    """Return the ticks of an axis of ranks: as many evenly spaced texts as fit into `room` characters."""
    names = [escape_markup(short(text, room // 2)) for text in texts]
    every = 1
    # Neighbours need a space of two characters.
    while every < len(names) and sum(len(name) + 2 for name in names[::every]) > room:
        every += 1
    return {"tickvals": list(range(len(names)))[::every], "ticktext": names[::every], "tickangle": 0}


def log_ticks(values: Sequence[float], most: int = 8) -> dict[str, Any]:
    """Return plotly's settings for a logarithmic axis over these values, with at most `most` powers of ten as ticks.

    If the values span at most 2.5 powers of ten, 2 and 5 times each power of ten are ticks, too. If fewer than two
    ticks are within the range, its ends and its middle are the ticks instead. The text of a tick is its value, such as
    `20`.
    """
    low, high = math.log10(min(values)), math.log10(max(values))
    decades = range(math.floor(low), math.ceil(high) + 1)
    every = math.ceil(len(decades) / most)
    factors = (1,) if high - low > 2.5 else (1, 2, 5)
    ticks = [float(f"{factor}e{decade}") for decade in decades[::every] for factor in factors]
    if sum(min(values) <= tick <= max(values) for tick in ticks) < 2:
        ticks = sorted({min(values), float(f"{10 ** ((low + high) / 2):.3g}"), max(values)})
    return {"type": "log", "tickvals": ticks, "ticktext": [f"{tick:.3g}" for tick in ticks]}


def leave_out_far(figure: Any, values: Sequence[float], always: Sequence[float] = ()) -> str:
    """Exclude outliers from the vertical axis, but include the values in `always`.

    Return a sentence about outliers; an empty text if there are none.
    """
    low, high = fence(values)
    if (low, high) == (min(values), max(values)):
        return ""
    low, high = min([low, *always]), max([high, *always])
    margin = 0.05 * (high - low) or 0.05 * abs(high) or 0.05
    figure.update_yaxes(range=[low - margin, high + margin])
    return " Outliers are outside of the picture: double-click to see all."


def clip(scores: Mapping[int, float]) -> tuple[dict[int, float], str]:
    """Replace each outlier by the nearest score that is no outlier; return the scores, and a sentence about outliers.

    Otherwise the outliers would give all other scores nearly the same colour. The sentence is empty if there are no
    outliers.
    """
    low, high = fence(list(scores.values()))
    near = {number: min(max(score, low), high) for number, score in scores.items()}
    far = sum(near[number] != score for number, score in scores.items())
    return (
        near,
        f" Scores are clipped to the range from {low:.4g} to {high:.4g}, which changes {format_count(far, 'score*')}."
        if far
        else "",
    )


def fence(values: Sequence[float]) -> tuple[float, float]:
    """Return the lowest and the highest value that are no outliers.

    Outliers are more than three interquartile ranges below the first quartile or above the third quartile.

    Source: Tukey 1977, "Exploratory Data Analysis", section 2D.
    """
    known = np.asarray(values, dtype=float)
    first, third = np.quantile(known, (0.25, 0.75))
    reach = _FAR * (third - first)
    near = known[(known >= first - reach) & (known <= third + reach)]
    return float(near.min()), float(near.max())


def time_unit(seconds: float) -> tuple[float, str]:
    """Return the most readable unit of time for a duration: the unit's length in seconds, and the unit's name."""
    units = ((3600.0, "hours"), (60.0, "minutes"))
    return next(((size, name) for size, name in units if seconds >= 2 * size), (1.0, "seconds"))


@dataclass(frozen=True)
class TimeAxis:
    """The time since the start of a search's first task, not counting pauses.

    `start` and `pauses` are in seconds since the epoch."""

    start: float
    pauses: tuple[tuple[float, float], ...]

    @classmethod
    def of(cls, outcomes: Sequence[Outcome], stretches: Sequence[Stretch] = ()) -> Self:
        """Return the time axis of a search's tasks; `stretches` are the sessions in which these tasks ran."""
        resumed = {ran.started for ran in stretch_runs(outcomes, stretches)[1:]}
        gaps: list[tuple[float, float]] = []
        ordered = sorted(outcomes, key=lambda o: o.started)
        start = ordered[0].started if ordered else 0.0
        end, running = start, 0.0
        for outcome in ordered:
            if outcome.started > end:
                gaps.append((end, outcome.started))
            running += max(0.0, outcome.started + outcome.seconds - max(end, outcome.started))
            end = max(end, outcome.started + outcome.seconds)
        longest = max(_SECONDS, _SHARE * running)
        return cls(start, tuple(g for g in gaps if g[1] in resumed or g[1] - g[0] > longest))

    def at(self, time: float) -> float:
        """Return the position of a time on the axis; `time` is in seconds since the epoch."""
        return time - self.start - sum(min(time, end) - begin for begin, end in self.pauses if time > begin)

    def mark_pauses(self, figure: Any, unit: float, **place: Any) -> str:
        """Draw dotted lines for at most fifty pauses; return a sentence about all pauses, or "" if there are none."""
        for begin, _ in self.pauses[:_MOST_MARKS]:
            figure.add_vline(x=self.at(begin) / unit, line_dash="dot", line_color="#888", line_width=1, **place)
        if not self.pauses:
            return ""
        seconds = sum(end - begin for begin, end in self.pauses)
        length = format_duration(seconds)
        return f" Left out (dotted): {format_count(len(self.pauses), 'pause*')} without a running task ({length})."
