"""Values that lie far above the others."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

__all__ = ["outliers"]

# Tukey's outer fence, in distances between the quartiles: "far out".
FENCE = 3.0
# Fewer values have no quartiles worth the name.
FEWEST = 5


def outliers(values: Sequence[float]) -> list[int]:
    """Indices of the values above Tukey's outer fence: third quartile + 3 interquartile ranges."""
    if len(values) < FEWEST:
        return []
    first, _, third = statistics.quantiles(values, n=4, method="inclusive")
    fence = third + FENCE * (third - first)
    return [index for index, value in enumerate(values) if value > fence]
