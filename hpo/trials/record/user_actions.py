"""What users do to a search that runs: acts, written to its record with their place before they take effect."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from hpo.trials.space.space import Point, short_text


@dataclass(frozen=True)
class Add:
    """Try a point of one's own, next; or the point of the failed trial `retry_of` again, trained as that one was."""

    point: Point
    retry_of: int | None = None


@dataclass(frozen=True)
class Stop:
    """Stop a running trial, or, without a `trial`, the search once its running trials have ended."""

    trial: int | None = None


@dataclass(frozen=True)
class End:
    """End the search, as a callback can: begin no further trial, and train those that have begun."""


@dataclass(frozen=True)
class Raise:
    """Go on to a larger budget; None = as it is."""

    trials: int | None = None
    minutes: float | None = None


@dataclass(frozen=True)
class UserAction:
    """What a user requests, and whose it is; None = another program's."""

    ask: Add | Stop | End | Raise
    by: str | None = None

    def __str__(self) -> str:
        """As people read it: `ada stops trial 7`."""
        who, ask = self.by or "another program", self.ask
        if isinstance(ask, Add):
            return f"{who} {_added(ask)}"
        if isinstance(ask, End):
            return f"a callback of {who} ends the search"
        if isinstance(ask, Stop):
            return f"{who} stops " + ("the search" if ask.trial is None else f"trial {ask.trial}")
        budget = [f"{ask.trials} trials" if ask.trials else "", f"{ask.minutes:g} minutes" if ask.minutes else ""]
        return f"{who} raises the budget to {' and '.join(filter(None, budget))}"


def _added(add: Add) -> str:
    return f"adds a point: {short_text(add.point)}" if add.retry_of is None else f"retries trial {add.retry_of}"


@dataclass(frozen=True)
class AddedPoint:
    """A point that a user gave `after` so many trials were opened; it comes before the strategy's next new point.

    `time`, in seconds since the epoch, and `by`, a user's name, are empty where another program queued the point.
    `retry_of` is the number of the failed trial that it tries again.
    """

    point: Point
    after: int
    time: float | None = None
    by: str | None = None
    retry_of: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-able dict of what is known."""
        known = {name: value for name, value in vars(self).items() if value is not None}
        return known | {"point": dict(self.point)}


@dataclass(frozen=True)
class RecordedAction:
    """What a user did besides giving a point, when and by whom, `after` so many trials were opened.

    Attributes:
        trial, points: of a trial that was stopped, its number, and by the index of each task that had begun after how
            many points of its learning curve it ended; None = by itself, before.
        trials, minutes: the budget that was raised, where it was; of an end by a callback the budget of trials then.
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
    def from_dict(cls, noted: Mapping[str, Any]) -> Self:
        """Read what `to_dict` wrote."""
        return cls(**{**noted, "points": {int(task): number for task, number in noted["points"].items()}})
