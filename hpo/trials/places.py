"""Where a report of a training stands: at its epoch, else at its step, else at its number."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

Point = Mapping[str, Any]
"""A point of a learning curve; with its place as `epoch` or `step` once `Places` has taken it."""

Kind = Literal["epoch", "step", "number"]


def place_of(point: Point) -> float:
    """Return the place of a point that `Places` has taken."""
    place: float = point["epoch"] if "epoch" in point else point["step"]
    return place


def starts_at_zero(points: Iterable[Point]) -> bool:
    """Return whether the first of these points is at place 0: then the amount reached at a place is one more."""
    return next((place_of(point) == 0 for point in points), False)


def reached(earlier: Sequence[Point], curve: Sequence[Point]) -> float | None:
    """Return the amount of training that a curve has reached, counted from the start; None where nothing was reported.

    `earlier` has the points of the trainings that this one continues.
    """
    points = [*earlier[:1], *earlier[-1:], *curve[:1], *curve[-1:]]
    return place_of(points[-1]) + starts_at_zero(points) if points else None


def amount_text(amount: int | None, reached: float | None, full: int | None = None) -> str:
    """Return how far a complete trial was trained, to follow its score; empty where every training is a full one.

    `reached` by what it reported, None = as far as the `amount` that it was trained by; `full` is that of a full one.
    """
    if amount is None:
        return ""
    of = amount if full is None else full
    if reached is not None and reached < amount:
        return f", ended by itself at {reached:g} of {of}"
    return f", trained to {max(amount, reached or 0):g} of {of}"


def to_amount(amount: int | None, reached: float | None) -> str:
    """Return the same in short, to follow a point or a score in a table: ` to 9`."""
    is_short = amount is not None and reached is not None and reached < amount
    return amount_text(amount, reached) if is_short or amount is None else f" to {max(amount, reached or 0):g}"


class Places:
    """Gives the reports of one training their places, which rise and are of one kind.

    Args:
        counted: the amount after which reports without `epoch` and `step` are counted on: that of the trial which is
            continued, or 0.
        again: the places of those that are repeated before.
        last: the place of the report before the first; None = there is none.
    """

    def __init__(self, counted: float = 0, again: Iterable[float] = (), last: float | None = None) -> None:
        self._numbers = itertools.chain(again, itertools.count(counted + 1))
        self._kind: Kind | None = None
        self._last = last

    @property
    def kind(self) -> Kind | None:
        """Of what kind the places are; None before the first report."""
        return self._kind

    def take(self, point: Point) -> dict[str, Any]:
        """Return the next point, of numbers, with its place as `epoch` where it names none.

        Raises:
            ValueError: its place is no later than that of the point before, below 0, or of another kind.
        """
        kind: Kind = "epoch" if "epoch" in point else "step" if "step" in point else "number"
        if self._kind is not None and kind != self._kind:
            names = {"number": "no epoch", "epoch": "epochs", "step": "steps"}
            raise ValueError(
                f"report: must name the same in all reports, given {names[kind]} after {names[self._kind]}: "
                f"by them trainings are compared"
            )
        self._kind = kind
        placed = {"epoch": next(self._numbers), **point} if kind == "number" else dict(point)
        place = place_of(placed)
        if place < 0:
            raise ValueError(f"report: its {kind} must be 0 or more, given {place:g}")
        if self._last is not None and place <= self._last:
            raise ValueError(
                f"report: its {kind} must be later than that of the report before, {self._last:g}, given {place:g}; "
                f"several reports of an epoch have parts of it, such as 1.5"
            )
        self._last = place
        return placed
