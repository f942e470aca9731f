"""Determines the place of a report, which is the report's position on the learning curve.

The place is the epoch of the report. Without an epoch, the place is the step; without both, the number of the report.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

Point = Mapping[str, Any]
"""A point of a learning curve: the reported values by name.

In a point that `Places.take` has returned, the value of `epoch` or `step` is the place.
"""

Kind = Literal["epoch", "step", "number"]


def place_of(point: Point) -> float:
    """Return the place (epoch or step) of a learning-curve point that `Places.take` has returned."""
    place: float = point["epoch"] if "epoch" in point else point["step"]
    return place


def starts_at_zero(points: Iterable[Point]) -> bool:
    """Return whether the first of these learning-curve points is at place 0.

    If so, places count from 0, and the amount of training reached at a place is the place + 1.
    """
    return next((place_of(point) == 0 for point in points), False)


def reached(earlier: Sequence[Point], curve: Sequence[Point]) -> float | None:
    """Return the amount of training at the last report; None if there is no report.

    The amount is counted from the start of the first training. `curve` holds the reports of a training. If this
    training continues earlier trainings, `earlier` holds the reports of the earlier trainings.
    """
    points = [*earlier[:1], *earlier[-1:], *curve[:1], *curve[-1:]]
    return place_of(points[-1]) + starts_at_zero(points) if points else None


def amount_text(amount: int | None, reached: float | None, full: int | None = None) -> str:
    """Return a text to append to a complete trial's score, such as `, trained to 3 of 9`.

    Args:
        amount: the trial's planned amount of training. None = the strategy does not train by amounts; then the text is
            empty.
        reached: the amount at the trial's last report; None = the trial has no reports.
        full: the amount of a full training; None = `amount`.
    """
    if amount is None:
        return ""
    of = amount if full is None else full
    if reached is not None and reached < amount:
        return f", ended by itself at {reached:g} of {of}"
    return f", trained to {max(amount, reached or 0):g} of {of}"


def to_amount(amount: int | None, reached: float | None) -> str:
    """Return how far a trial was trained, as a short text such as ` to 9`, to append to a cell of a table.

    Return "" if the planned `amount` is None. If the training ended by itself before `amount`, return the text of
    `amount_text` instead. `reached` is the amount at the last report; None = there are no reports.
    """
    is_short = amount is not None and reached is not None and reached < amount
    return amount_text(amount, reached) if is_short or amount is None else f" to {max(amount, reached or 0):g}"


class Places:
    """Assigns places to the reports of one training; the places must ascend, and be all of one kind.

    The kinds are epoch, step and number. A report without `epoch` and `step` gets its number as its place. A training
    that starts again from the beginning repeats its earlier reports before it makes new ones.

    Args:
        counted: the amount that was trained before the first new report; this report gets the number `counted` + 1.
        again: the places of the earlier reports that the training repeats.
        last: the place of the report before the first call of `take`; None = there was no report.

    Attributes:
        kind: the kind of the reported places; None before the first report.
    """

    def __init__(self, counted: float = 0, again: Iterable[float] = (), last: float | None = None) -> None:
        self._numbers = itertools.chain(again, itertools.count(counted + 1))
        self.kind: Kind | None = None
        self._last = last

    def take(self, point: Point) -> dict[str, Any]:
        """Return the report `point` as a dict that has an epoch or a step.

        If `point` has neither `epoch` nor `step`, count the reports, and add the count as `epoch`: the third report of
        a new training gets the epoch 3.

        Raises:
            ValueError: the report's epoch or step is negative, or not above that of the previous report; or the report
                is of another kind than the previous report.
        """
        kind: Kind = "epoch" if "epoch" in point else "step" if "step" in point else "number"
        if self.kind is not None and kind != self.kind:
            names = {"number": "no epoch", "epoch": "epochs", "step": "steps"}
            raise ValueError(
                f"report: all reports of a training must be of one kind (with epoch, with step, or with neither), "
                f"given {names[kind]} after {names[self.kind]}; trainings are compared by epoch or step"
            )
        placed = {"epoch": next(self._numbers), **point} if kind == "number" else dict(point)
        place = place_of(placed)
        if place < 0:
            raise ValueError(f"report: {kind} must be 0 or more, given {place:g}")
        if self._last is not None and place <= self._last:
            raise ValueError(
                f"report: {kind} must be above {self._last:g}, the {kind} of the previous report, given {place:g}; "
                f"for several reports per epoch, give fractions such as 1.5"
            )
        self.kind, self._last = kind, place
        return placed
