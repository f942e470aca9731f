"""Which values are outliers (Tukey's "far out")."""

from collections.abc import Sequence

import numpy as np

_FAR = 3.0  # times the interquartile range: Tukey's outer fence, beyond which values are far out


def fence(values: Sequence[float]) -> tuple[float, float]:
    """Return the lowest and the highest value that are not far out.

    Values are far out if they lie more than three times the interquartile range beyond the quartiles.

    Source: Tukey 1977, "Exploratory Data Analysis", section 2D.
    """
    known = np.asarray(values, dtype=float)
    first, third = np.quantile(known, (0.25, 0.75))
    reach = _FAR * (third - first)
    near = known[(known >= first - reach) & (known <= third + reach)]
    return float(near.min()), float(near.max())
