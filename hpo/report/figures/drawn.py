"""What drawing a figure gives: the figure, or the reason why there is none."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Drawn:
    """A figure.

    Attributes:
        figure: a plotly Figure.
        caption: what it shows, and what was left out of it.
    """

    figure: Any
    caption: str


@dataclass(frozen=True)
class NotDrawn:
    """Stands where there is no figure.

    Attributes:
        reason: why not, in one line.
    """

    reason: str
