"""The contribution of each example to a metric, from which `hpo test` computes the metric's confidence interval.

Importing this module does not load torch.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.float64]


class ByExample(NamedTuple):
    """The contribution of each example to a metric, as a row of numbers.

    To compute the metric of a sample of examples, first add up the rows of the sample. Then apply `score` to the total.

    Attributes:
        sums: (examples, columns), one row per example. If an example has several predictions, its row is the sum over
            these predictions.
        score: a function from the totals of several samples, (samples, columns), to their metrics, (samples,). None =
            the metric is the first column of the total divided by the second column.
    """

    sums: Rows
    score: Callable[[Rows], Rows] | None = None
