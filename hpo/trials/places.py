"""The place of a report on its learning curve: its epoch, or its step, or its number."""

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
    """Return whether the first of these points is at place 0; then the amount reached at a place is the place + 1."""
    return next((place_of(point) == 0 for point in points), False)


def reached(earlier: Sequence[Point], curve: Sequence[Point]) -> float | None:
    """Return the amount of training that a curve has reached, from the start; None without a report.

    `earlier` holds the points of the trainings that this one continues.
    """
    points = [*earlier[:1], *earlier[-1:], *curve[:1], *curve[-1:]]
    return place_of(points[-1]) + starts_at_zero(points) if points else None


def amount_text(amount: int | None, reached: float | None, full: int | None = None) -> str:
    """Return a text about the amount of training of a complete trial, to follow its score.

    Args:
        amount: the amount that it was trained to; None = every training is a full one, and the text is empty.
        reached: the amount at its last report; None = without reports.
        full: the amount of a full training; None = `amount`.
    """
    if amount is None:
        return ""
    of = amount if full is None else full
    if reached is not None and reached < amount:
        return f", ended by itself at {reached:g} of {of}"
    return f", trained to {max(amount, reached or 0):g} of {of}"


def to_amount(amount: int | None, reached: float | None) -> str:
    """Return a short text about the amount, to follow a point or a score in a table: ` to 9`."""
    is_short = amount is not None and reached is not None and reached < amount
    return amount_text(amount, reached) if is_short or amount is None else f" to {max(amount, reached or 0):g}"


class Places:
    """Gives the reports of one training their places, which must be of one kind and in ascending order.

    Args:
        counted: the amount of the continued trial, or 0; the count of reports without `epoch` and `step` starts there.
        again: the places of reports that a training repeats first.
        last: the place of the report before the first; None = there is none.
    """

    def __init__(self, counted: float = 0, again: Iterable[float] = (), last: float | None = None) -> None:
        self._numbers = itertools.chain(again, itertools.count(counted + 1))
        self._kind: Kind | None = None
        self._last = last

    @property
    def kind(self) -> Kind | None:
        """The kind of the places; None before the first report."""
        return self._kind

    def take(self, point: Point) -> dict[str, Any]:
        """Return the next point, with its place as `epoch` if it has neither `epoch` nor `step`.

        Raises:
            ValueError: its place is negative, of another kind, or not later than that of the point before.
        """
        kind: Kind = "epoch" if "epoch" in point else "step" if "step" in point else "number"
        if self._kind is not None and kind != self._kind:
            names = {"number": "no epoch", "epoch": "epochs", "step": "steps"}
            raise ValueError(
                f"report: must have epoch in all reports, step in all, or neither, given {names[kind]} after "
                f"{names[self._kind]}: trainings are compared by it"
            )
        self._kind = kind
        placed = {"epoch": next(self._numbers), **point} if kind == "number" else dict(point)
        place = place_of(placed)
        if place < 0:
            raise ValueError(f"report: its {kind} must be 0 or more, given {place:g}")
        if self._last is not None and place <= self._last:
            raise ValueError(
                f"report: its {kind} must be later than that of the report before, {self._last:g}, given {place:g}; "
                f"for several reports per epoch, give fractions such as 1.5"
            )
        self._last = place
        return placed
