"""A part of a report, or why it could not be made; a part that fails does not affect the others."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from hpo.errors import HpoError, first_line

Part = TypeVar("Part")
Instead = TypeVar("Instead")


@dataclass(frozen=True)
class Absent:
    """Takes the place of a missing figure or of its numbers.

    Attributes:
        reason: why not, in one line.
    """

    reason: str


def part(make: Callable[[], Part], instead: Callable[[str], Instead]) -> Part | Instead:
    """Return the result of `make`; if it fails, the result of `instead` with the reason.

    An unreadable file of the study is not such a failure: it is raised, for the user to fix.
    """
    try:
        return make()
    except HpoError:
        raise
    except Exception as error:  # noqa: BLE001  # The study's other figures must still be made.
        return instead(f"could not be made: {type(error).__name__}: {first_line(error)}")
