"""The contribution of each example to a metric, from which `hpo test` computes the metric's confidence interval.

Importing this module does not load torch.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.float64]


class ByExample(NamedTuple):
    """The contributions of examples to a metric; their sums over a sample of examples determine the sample's metric.

    Attributes:
        sums: (examples, columns), the contributions, each summed over the predictions of the example.
        score: a function from summed contributions (samples, columns) to the metric of each sample, (samples,). None =
            the metric is the sum of the first column divided by the sum of the second column.
    """

    sums: Rows
    score: Callable[[Rows], Rows] | None = None
