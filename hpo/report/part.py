"""A part of a report, or why it could not be made: none takes the others with it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from hpo.errors import HpoError, first_line

Part = TypeVar("Part")
Instead = TypeVar("Instead")


@dataclass(frozen=True)
class Absent:
    """Stands where there is no figure, and no numbers for one.

    Attributes:
        reason: why not, in one line.
    """

    reason: str


def part(make: Callable[[], Part], instead: Callable[[str], Instead]) -> Part | Instead:
    """Return what `make` makes; where that fails, what `instead` makes of the reason.

    A file of the study that cannot be read is no such failure: it is the user's to put right.
    """
    try:
        return make()
    except HpoError:
        raise
    except Exception as error:  # noqa: BLE001  # Whatever a study holds, its other figures are worth having.
        return instead(f"could not be made: {type(error).__name__}: {first_line(error)}")
