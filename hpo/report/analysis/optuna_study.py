"""The trials as an Optuna study in memory, for Optuna's figures and importances."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from hpo.engine.space.dimensions import Dimension, Range, Value
from hpo.engine.space.space import Space
from hpo.engine.trials.trial import Direction, Trial
from hpo.report.words import escape_markup

_FAR = 3.0  # times the interquartile range: Tukey's outer fence, beyond which values are far out


def fence(values: Sequence[float]) -> tuple[float, float]:
    """Return the lowest and the highest value that are not far out.

    Values are far out if they lie more than three times the interquartile range beyond the quartiles.

    Source: Tukey 1977, "Exploratory Data Analysis", section 2D.
    """
    known = np.asarray(values, dtype=float)
    first, third = np.quantile(known, (0.25, 0.75))
    reach = _FAR * (third - first)
    near = known[(known >= first - reach) & (known <= third + reach)]
    return float(near.min()), float(near.max())


class Rank(int):
    """A value of a finite dimension: its rank, by which figures order it, shown as the value itself.

    Optuna orders texts and booleans by the alphabet or by first appearance, and treats true as 1.
    """

    text: str

    def __new__(cls, place: int, text: str) -> "Rank":
        """Return the rank of the value with this text."""
        rank = super().__new__(cls, place)
        rank.text = text
        return rank

    def __repr__(self) -> str:
        return self.text

    __str__ = __repr__

    def __deepcopy__(self, _memo: dict[int, Any]) -> "Rank":
        # Optuna copies every trial that it gets; an immutable value needs no copy.
        return self


def optuna_study(
    space: Space, direction: Direction, trials: Sequence[Trial], steps: int | None = None, keeps_wild: bool = False
) -> Any:
    """Return an Optuna study of these trials in memory.

    Args:
        space: the space of the trials.
        direction: which scores are better.
        trials: trials with scores.
        steps: if given, numbers of ranges are moved to the nearest of so many places on their scale.
        keeps_wild: whether outliers keep their score; else they get the nearest score that is not an outlier, since
            all other scores would share one colour.
    """
    import optuna

    low, high = fence([trial.score for trial in trials if trial.score is not None])
    ranks = {d.key: ranks_of(d) for d in space.dimensions if not isinstance(d, Range)}
    kinds = {d.key: _distribution(d, ranks) for d in space.dimensions}
    with quiet_optuna():
        study = optuna.create_study(direction=direction)
        study.add_trials(
            [
                optuna.create_trial(
                    params={escape_markup(k): _parameter(space[k], v, ranks, steps) for k, v in trial.point.items()},
                    distributions={escape_markup(k): kinds[k] for k in trial.point},
                    value=trial.score if keeps_wild or trial.score is None else min(max(trial.score, low), high),
                )
                for trial in trials
            ]
        )
    return study


def texts(dimension: Dimension) -> list[str]:
    """Return the values of a finite dimension as texts, no two alike."""
    values = dimension.values
    ways = [[f"{v:{digits}}" if type(v) is float else str(v) for v in values] for digits in (".3g", ".6g")]
    # The shortest format in which all texts differ; a number and a text may look the same.
    return next((way for way in ways if len(set(way)) == len(way)), [repr(v) for v in values])


@contextmanager
def quiet_optuna() -> Iterator[None]:
    """Silence Optuna's warnings about studies that have nothing to show; the report gives its own reasons."""
    import optuna

    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            # Too few trials in a part of a conditional space, or two hyperparameters that never exist together.
            warnings.filterwarnings("ignore", category=UserWarning, message="Some regimes|Contour plot|Target and")
            yield
    finally:
        optuna.logging.set_verbosity(verbosity)


# True equals 1 in Python, and a dimension may have both values.
_Ranks = Mapping[tuple[bool, Value], Rank]


def ranks_of(dimension: Dimension) -> _Ranks:
    """Return the rank of each value of a finite dimension, by whether it is a boolean and the value."""
    names = [escape_markup(text) for text in texts(dimension)]
    return {(isinstance(v, bool), v): Rank(place, names[place]) for place, v in enumerate(dimension.values)}


def _distribution(dimension: Dimension, ranks: Mapping[str, _Ranks]) -> Any:
    from optuna.distributions import CategoricalDistribution

    from hpo.engine.record.rows import distribution

    if isinstance(dimension, Range):
        return distribution(dimension)
    return CategoricalDistribution(list(ranks[dimension.key].values()))


def _parameter(dimension: Dimension, value: Value, ranks: Mapping[str, _Ranks], steps: int | None) -> Any:
    if not isinstance(dimension, Range):
        return ranks[dimension.key][isinstance(value, bool), value]
    assert isinstance(value, int | float)
    return value if steps is None else dimension.from_unit(round(dimension.to_unit(value) * steps) / steps)
