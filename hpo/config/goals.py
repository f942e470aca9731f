"""The rules for values of `study.metrics`, `limits`, `measured`, `target`, `choose` and `scales`."""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, BeforeValidator, Field

from hpo.config.keys import flatten, own_key
from hpo.errors import ConfigError

Direction = Literal["maximize", "minimize"]
_CHOICES = ("knee", "first_within_limits")
_EXAMPLES = (
    "knee, first_within_limits, weights of metrics ({accuracy: 0.7, parameters: 0.3}), or the best of one metric, with "
    "other metrics at most 5 % from their best values ({best: accuracy, within: {parameters: 5 %}})"
)
# Of 100 random trials, 45 % are on the Pareto front of 5 metrics, 5 % on that of 2 (Ishibuchi et al. 2008,
# "Evolutionary many-objective optimization: a short review"). With 5 metrics, the hypervolume takes seconds per trial.
_MAX_METRICS = 4
_MAX_NAME_LENGTH = 200


def _check_name(name: str) -> str:
    if name != " ".join(name.split()) or len(name) > _MAX_NAME_LENGTH:
        raise ValueError(
            f"must have at most {_MAX_NAME_LENGTH} characters, and no white space except single blanks between words"
        )
    return name


Name = Annotated[str, Field(min_length=1), AfterValidator(_check_name)]
"""The name of a metric, as an objective returns it."""


def _check_metrics(given: Any) -> Any:
    if isinstance(given, str) and ":" in given:
        # A shell splits {a:maximize,b:minimize} into two words.
        raise ValueError("must be in quotes, such as 'study.metrics={accuracy: maximize, parameters: minimize}'")
    if not isinstance(given, dict) or not given:
        raise ValueError("must have a direction for each metric, such as {accuracy: maximize, parameters: minimize}")
    if len(given) > _MAX_METRICS:
        raise ValueError(
            f"must have at most {_MAX_METRICS} metrics, because with more of them, half of all trials are on the "
            "Pareto front"
        )
    return given


def _check_limits(given: Any) -> Any:
    if not isinstance(given, dict) or not given:
        raise ValueError("must have a bound for each metric, such as {parameters: 1.0e6}, or be null")
    return given


def _check_bounds(given: Any) -> Any:
    bounds = [*given.values()] if isinstance(given, dict) else [given]
    is_named = not isinstance(given, dict) or (given and given.keys() <= {"min", "max"})
    if not is_named or any(isinstance(bound, bool) or not isinstance(bound, int | float) for bound in bounds):
        raise ValueError("must be a number, {min: ...}, {max: ...}, or {min: ..., max: ...}")
    if len(bounds) == 2 and given["min"] > given["max"]:
        raise ValueError("must have a min that is not above the max")
    return given


Metrics = Annotated[dict[Name, Direction], BeforeValidator(_check_metrics)]
"""The direction of each metric, by name; the first metric becomes `study.metric`."""

Bounds = dict[Name, Annotated[float | dict[str, float], BeforeValidator(_check_bounds)]]
"""Limits by the name of the metric: {min: ...}, {max: ...}, both, or a number.

If the metric is maximized, a number is the lower limit. Otherwise, a number is the upper limit.
"""

Limits = Annotated[Bounds, BeforeValidator(_check_limits)]
"""The same as `Bounds`, but not empty."""


def _check_measured(given: list[str]) -> list[str]:
    if not given:
        raise ValueError("must have at least one name, such as [latency_ms], or be null")
    if twice := [name for name in given if given.count(name) > 1]:
        raise ValueError(f"must have each name once, given {twice[0]} twice")
    return given


Measured = Annotated[list[Name], AfterValidator(_check_measured)]
"""Names of numbers that an objective returns in addition to the metrics."""


def _check_target(given: Any) -> Any:
    scores = [*given.values()] if isinstance(given, dict) else [given]
    if not scores or any(isinstance(score, bool) or not isinstance(score, int | float) for score in scores):
        raise ValueError(
            "must be a score; with study.metrics, it must be one score for each metric, "
            "such as {accuracy: 0.95, latency: 2}"
        )
    return given


TargetScores = Annotated[float | dict[Name, float], BeforeValidator(_check_target)]
"""The score that ends a search, or the scores by metric."""


def leading(metrics: Mapping[Any, Any]) -> dict[str, Any]:
    """Return `metric` and `direction` of the first metric as a dict; empty if the first metric is not valid."""
    name, direction = next(iter(metrics.items()), (None, None))
    is_sound = isinstance(name, str) and name and direction in get_args(Direction)
    return {"metric": name, "direction": direction} if is_sound else {}


def refuse_beside_metrics(given: Collection[str]) -> None:
    """Raise ConfigError if `study.metric` or `study.direction` is in `given`, because `study.metrics` replaces both."""
    for key in ("study.metric", "study.direction"):
        if key in given:
            raise ConfigError(
                f"{key}: has no effect with study.metrics, which already sets the directions; leave out {key}"
            )


def one_name(given: Any) -> Any:
    """Return a single name of a metric unchanged; raise ValueError if several names are given."""
    if isinstance(given, Mapping | list):
        raise ValueError("must be one name; use study.metrics for several metrics with their directions")
    return given


def bounds_of(given: float | Mapping[str, float], direction: Direction | None) -> list[tuple[float, bool]]:
    """Return the bounds of a limit as pairs: the bound, and True for a minimum or False for a maximum."""
    if isinstance(given, Mapping):
        return [(bound, side == "min") for side, bound in given.items()]
    return [(given, direction == "maximize")]


def _check_choice(given: Any) -> Any:
    """Check the form of `study.choose`; `StudySection` checks that the metrics in it are metrics of the study."""
    if given in _CHOICES:
        return given
    if not isinstance(given, dict):
        raise ValueError(f"must be one of {_EXAMPLES}")
    if given.keys() == {"best", "within"}:
        if not isinstance(given["best"], str) or not isinstance(given["within"], dict) or not given["within"]:
            raise ValueError(f"must be one of {_EXAMPLES}")
        for share in given["within"].values():
            share_of(share)
        return given
    weights = [*given.values()]
    if not weights or given.keys() & {"best", "within"}:
        raise ValueError(f"must be one of {_EXAMPLES}")
    if any(isinstance(w, bool) or not isinstance(w, int | float) or not 0 <= w < 1e100 for w in weights):
        raise ValueError("must have weights of 0 or more")
    if not any(weights):
        raise ValueError("must have at least one weight above 0")
    return given


Choice = Annotated[str | dict[str, Any], BeforeValidator(_check_choice)]
"""The rule that chooses the winner from the Pareto front."""


def share_of(given: Any) -> float:
    """Convert `5 %`, `5%` or 0.05 to the share 0.05; raise ValueError for a negative share or another form."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*%\s*", given) if isinstance(given, str) else None
    if match is not None:
        return float(match[1]) / 100
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 <= given < 1e100:
        raise ValueError(f"must say how far from its best value a metric may be, such as 5 % or 0.05, given {given!r}")
    return float(given)


def metrics_of(choice: str | Mapping[str, Any]) -> list[str]:
    """Return the metrics that a value of `study.choose` names."""
    if isinstance(choice, str):
        return []
    return [choice["best"], *choice["within"]] if choice.keys() == {"best", "within"} else [*choice]


SCALE = "study.scale"
"""The key under which a point has the index of its scale. The first index is 1, and the last scale is the target."""


def _check_scales(given: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    scales = [{own_key(key): value for key, value in flatten(changes).items()} for changes in given]
    if len(scales) < 2:
        raise ValueError("must have at least two scales, the smallest first and the target last")
    for number, changes in enumerate(scales, start=1):
        if not changes:
            raise ValueError(f"scale {number} changes nothing; give keys and values, such as model.d_model: 64")
        if changes in scales[: number - 1]:
            raise ValueError(f"scale {number} is the same as scale {scales.index(changes) + 1}; leave one of them out")
    return scales


Scales = Annotated[list[dict[str, Any]], AfterValidator(_check_scales)]


def at_scale(point: Mapping[str, Any], scales: Sequence[Mapping[str, Any]] | None) -> Mapping[str, Any]:
    """Return a point with the settings of its scale in place of the key `study.scale`.

    Without this key or without scales, return the point unchanged.
    """
    if SCALE not in point or scales is None:
        return point
    own = {key: value for key, value in point.items() if key != SCALE}
    return {**scales[point[SCALE] - 1], **own}


def changed_keys(scales: Sequence[Mapping[str, Any]] | None) -> list[str]:
    """Return the keys that at least one scale changes, without repeats."""
    return list(dict.fromkeys(key for changes in scales or () for key in changes))
