"""The axis of a hyperparameter: its name, and as many of its values as fit."""

from collections.abc import Sequence
from typing import Any

from hpo.engine.space.dimensions import Dimension, Range
from hpo.report.analysis.optuna_study import texts
from hpo.report.figures.canvas.look import few_ticks, log_ticks, short
from hpo.report.words import escape_markup

_LONGEST_NAME, _MOST_POWERS = 30, 4


def axis_of(dimension: Dimension, room: int, values: Sequence[float] = (), has_names: bool = False) -> dict[str, Any]:
    """Return title and ticks of an axis, as plotly takes them.

    Args:
        dimension: the dimension: numbers of a range are shown unchanged, others as ranks or names.
        room: how many characters fit on the axis.
        values: the values of a range that are drawn; none = its ends.
        has_names: whether to show a finite dimension by names, as categories. Plotly reads a number as the name of a
            category first, and only then as a rank.
    """
    title = {"title_text": escape_markup(short(dimension.key, _LONGEST_NAME)), "tickangle": 0}
    if not isinstance(dimension, Range):
        ticks = few_ticks(texts(dimension), room)
        names = [escape_markup(text) for text in texts(dimension)]
        return title | ticks | ({"tickvals": [names[rank] for rank in ticks["tickvals"]]} if has_names else {})
    if not dimension.log:
        return title
    ticks = log_ticks(values or (dimension.low, dimension.high), _MOST_POWERS)
    return title | ticks | {"title_text": f"{title['title_text']} (log)"}
