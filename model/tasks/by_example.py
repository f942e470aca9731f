"""Metrics by example, from which `hpo test` computes intervals. Importing this module does not load torch."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.float64]


class ByExample(NamedTuple):
    """Numbers for each example, from which the metric of any sample of the examples can be computed.

    Attributes:
        sums: (examples, columns), the numbers. The sum of each column over a sample determines the sample's metric.
        score: computes the metric of each sample from the sums of the columns, (samples, columns); None = the first
            column's sum divided by the second column's sum.
    """

    sums: Rows
    score: Callable[[Rows], Rows] | None = None
