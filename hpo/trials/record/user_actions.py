"""User actions on a running search.

Each action is written to the record, with its position among the trials, before the action takes effect.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from hpo.trials.space.space import Point, short_text


@dataclass(frozen=True)
class Add:
    """Add a point to try next.

    If `retry_of` is given, add no new point: retry the failed trial that has the number `retry_of`. The retry has the
    same point and amount of training.
    """

    point: Point
    retry_of: int | None = None


@dataclass(frozen=True)
class Stop:
    """Stop a running trial; if `trial` is None, stop the search after its running trials have ended."""

    trial: int | None = None


@dataclass(frozen=True)
class End:
    """End the search at the request of a callback: no further trial begins, but running trials run to their end."""


@dataclass(frozen=True)
class Raise:
    """Raise the budget of trials or of minutes; None = leave that budget as it is."""

    trials: int | None = None
    minutes: float | None = None


@dataclass(frozen=True)
class UserAction:
    """A request, and the name (`by`) of the user who made the request; None = another program made the request."""

    request: Add | Stop | End | Raise
    by: str | None = None

    def __str__(self) -> str:
        """Return one line that says who requests what, such as `ada stops trial 7`."""
        who, request = self.by or "another program", self.request
        if isinstance(request, Add) and request.retry_of is not None:
            return f"{who} retries trial {request.retry_of}"
        if isinstance(request, Add):
            return f"{who} adds a point: {short_text(request.point)}"
        if isinstance(request, End):
            return f"a callback of {who} ends the search"
        if isinstance(request, Stop):
            return f"{who} stops " + ("the search" if request.trial is None else f"trial {request.trial}")
        trials = f"{request.trials} trials" if request.trials else ""
        minutes = f"{request.minutes:g} minutes" if request.minutes else ""
        return f"{who} raises the budget to {' and '.join(filter(None, (trials, minutes)))}"


@dataclass(frozen=True)
class AddedPoint:
    """A point added by a user or another program; it comes before the strategy's next new point.

    Attributes:
        point: the point.
        after: how many trials had been opened when the point was added.
        time: the time in seconds since the epoch; None = unknown.
        by: the user's name; None = another program queued the point.
        retry_of: the number of the failed trial that the point retries; None = a new point.
    """

    point: Point
    after: int
    time: float | None = None
    by: str | None = None
    retry_of: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the added point as a JSON-able dict, without the attributes that are None."""
        known = {name: value for name, value in vars(self).items() if value is not None}
        return known | {"point": dict(self.point)}


@dataclass(frozen=True)
class RecordedAction:
    """A user action in the record; added points are recorded as `AddedPoint` instead.

    Attributes:
        do: the action.
        after: how many trials had been opened when the action took place.
        time: the time in seconds since the epoch.
        by: the user's name; None = another program acted.
        trial: for `stop_trial`, the number of the stopped trial.
        points: for `stop_trial`, the number of reports of each task before the stop, by task index; None = the task had
            already ended.
        trials: for `raise_budget`, the new budget of trials (None = unchanged); for `end_search`, the budget of trials
            at the time of the action.
        minutes: for `raise_budget`, the new budget of minutes; None = unchanged.
    """

    do: Literal["stop_trial", "stop_search", "end_search", "raise_budget"]
    after: int
    time: float
    by: str | None = None
    trial: int | None = None
    points: Mapping[int, int | None] = field(default_factory=dict)
    trials: int | None = None
    minutes: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the action as a JSON-able dict, which `from_dict` can read."""
        return vars(self) | {"points": {str(task): number for task, number in self.points.items()}}

    @classmethod
    def from_dict(cls, written: Mapping[str, Any]) -> Self:
        """Build an action from a dict that `to_dict` returned."""
        return cls(**{**written, "points": {int(task): number for task, number in written["points"].items()}})
