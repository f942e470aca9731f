"""The result of drawing a figure."""

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
