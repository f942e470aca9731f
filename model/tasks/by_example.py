"""Metrics by example, from which `hpo test` computes intervals. Importing this module does not load torch."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.float64]


class ByExample(NamedTuple):
    """A metric by example, so that the metric of any sample of the examples is known.

    Attributes:
        sums: (examples, columns), numbers whose sum over a sample determines the metric of the sample.
        score: computes the metric from sums (..., columns); None = the first column divided by the second.
    """

    sums: Rows
    score: Callable[[Rows], Rows] | None = None
