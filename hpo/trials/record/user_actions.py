"""User actions on a running search; the record holds each one, with its place, before it takes effect."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from hpo.trials.space.space import Point, short_text


@dataclass(frozen=True)
class Add:
    """Add a point to try next; or retry the failed trial `retry_of`, with the same point and amount of training."""

    point: Point
    retry_of: int | None = None


@dataclass(frozen=True)
class Stop:
    """Stop a running trial; without a `trial`, stop the search when its running trials have ended."""

    trial: int | None = None


@dataclass(frozen=True)
class End:
    """End the search, on behalf of a callback: no further trial begins, and running trials are fully trained."""


@dataclass(frozen=True)
class Raise:
    """Raise the budget; None = leave it as it is."""

    trials: int | None = None
    minutes: float | None = None


@dataclass(frozen=True)
class UserAction:
    """A user's request, and the user's name; None = another program."""

    request: Add | Stop | End | Raise
    by: str | None = None

    def __str__(self) -> str:
        """Return one line for people: `ada stops trial 7`."""
        who, request = self.by or "another program", self.request
        if isinstance(request, Add):
            return f"{who} {_added(request)}"
        if isinstance(request, End):
            return f"a callback of {who} ends the search"
        if isinstance(request, Stop):
            return f"{who} stops " + ("the search" if request.trial is None else f"trial {request.trial}")
        trials = f"{request.trials} trials" if request.trials else ""
        minutes = f"{request.minutes:g} minutes" if request.minutes else ""
        return f"{who} raises the budget to {' and '.join(filter(None, (trials, minutes)))}"


def _added(add: Add) -> str:
    return f"adds a point: {short_text(add.point)}" if add.retry_of is None else f"retries trial {add.retry_of}"


@dataclass(frozen=True)
class AddedPoint:
    """A point added by a user; it comes before the strategy's next new point.

    Attributes:
        after: the number of trials that had been opened before.
        time, by: the time in seconds since the epoch, and the user's name; None if another program queued the point.
        retry_of: the number of the failed trial that the point retries; None = a new point.
    """

    point: Point
    after: int
    time: float | None = None
    by: str | None = None
    retry_of: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-able dict, without the values that are None."""
        known = {name: value for name, value in vars(self).items() if value is not None}
        return known | {"point": dict(self.point)}


@dataclass(frozen=True)
class RecordedAction:
    """A user action other than an added point, as the record holds it.

    Attributes:
        after: the number of trials that had been opened before.
        time, by: the time in seconds since the epoch, and the user's name.
        trial: the number of the stopped trial.
        points: the number of points of each task of that trial when it was stopped, by task index; None = the task had
            ended by itself.
        trials, minutes: the raised budget; after the end by a callback, the budget of trials at that time.
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
        """Return a JSON-able dict that `from_dict` reads."""
        return vars(self) | {"points": {str(task): number for task, number in self.points.items()}}

    @classmethod
    def from_dict(cls, written: Mapping[str, Any]) -> Self:
        """Read the dict of `to_dict`."""
        return cls(**{**written, "points": {int(task): number for task, number in written["points"].items()}})
