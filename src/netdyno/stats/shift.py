"""The 95 % interval of how far one sample lies above another."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from functools import cache

from netdyno.stats.interval import LEVEL, Interval

__all__ = ["mann_whitney", "shift_interval"]

# Up to this many values in the smaller sample the distribution is counted out; above, the normal
# one is as good.
COUNTED = 20


def shift_interval(first: Sequence[float], second: Sequence[float]) -> Interval | None:
    """Of the shift between the distributions of two independent samples.

    Between two of the sorted differences, chosen by the exact null distribution of Mann and
    Whitney's U and interpolated as ``median_interval`` does: no distribution is assumed (Hodges &
    Lehmann 1963). Samples too small for that (3 and 3, 2 and 7) get Welch's t; None if either has
    a single value.
    """
    if min(len(first), len(second)) < 2:
        return None
    depth, inward = _place(len(first), len(second))
    if depth == 0:
        return _welch(first, second)
    ordered = sorted(x - y for x in first for y in second)
    count = len(ordered)
    return Interval(
        (1 - inward) * ordered[depth - 1] + inward * ordered[depth],
        (1 - inward) * ordered[count - depth] + inward * ordered[count - depth - 1],
    )


@cache
def _place(m: int, n: int) -> tuple[int, float]:
    """Where the interval ends: at the depth-th difference from either end, and how far beyond it.

    Depth 0: all differences together cover less than 95 %.
    """
    if min(m, n) > COUNTED:
        deviation = math.sqrt(m * n * (m + n + 1) / 12)
        quantile = statistics.NormalDist().inv_cdf((1 + LEVEL) / 2)
        return math.floor(m * n / 2 + 0.5 - quantile * deviation), 0.0
    chances = mann_whitney(m, n)
    outside, depth = 0.0, 0
    # outside: the chance that the true shift lies below the depth-th smallest difference.
    while outside + chances[depth] <= (1 - LEVEL) / 2:
        outside += chances[depth]
        depth += 1
    return depth, ((1 - LEVEL) / 2 - outside) / chances[depth]


def mann_whitney(m: int, n: int) -> list[float]:
    """Chance of each value of U, 0 to m*n, where both samples have one distribution.

    The coefficients of the Gaussian binomial: the product over i of (1 - q^(n+i)) / (1 - q^i).
    """
    m, n = sorted((m, n))
    counts = [1] + [0] * (m * n)
    for i in range(1, m + 1):
        for power in range(m * n, n + i - 1, -1):
            counts[power] -= counts[power - n - i]
        for power in range(i, m * n + 1):
            counts[power] += counts[power - i]
    total = math.comb(m + n, m)
    return [value / total for value in counts]


def _welch(first: Sequence[float], second: Sequence[float]) -> Interval:
    from scipy.special import stdtrit

    variances = [statistics.variance(values) / len(values) for values in (first, second)]
    centre = statistics.fmean(first) - statistics.fmean(second)
    if not sum(variances):
        return Interval(centre, centre)
    freedom = sum(variances) ** 2 / sum(
        v**2 / (len(values) - 1) for v, values in zip(variances, (first, second), strict=True)
    )
    reach = float(stdtrit(freedom, (1 + LEVEL) / 2)) * math.sqrt(sum(variances))
    return Interval(centre - reach, centre + reach)
