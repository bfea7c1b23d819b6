"""How far a median may be off: a 95 % interval from a few values, whatever their distribution.

The values are one for each process (or each round), never one for each block: blocks of one
process share its memory layout and its luck, so that many blocks of few processes look surer than
they are (Kalibera & Jones 2013; Hoefler & Belli, SC'15).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["LEVEL", "Interval", "median_interval"]

LEVEL = 0.95
# The fewest values whose extremes enclose the median in 95 % of cases: 1 - 2 / 2**6 = 0.97.
FEWEST_FOR_ORDER = 6


class Interval(NamedTuple):
    """``low`` to ``high``, in the unit of the values."""

    low: float
    high: float


def median_interval(values: Sequence[float]) -> Interval | None:
    """The 95 % interval of the median of what ``values`` were drawn from; None for fewer than two.

    Six values or more: between two of the sorted values, interpolated (Hettmansperger & Sheather
    1986). It assumes no distribution: outliers and two modes do it no harm. The bootstrap of a
    median tends to these same order statistics, but covers 91 to 98 % where this covers 94 to 96 %
    (benchmarks/coverage.py).

    Two to five values cannot tell their distribution: Student's t around their mean, which is
    wide, as it should be. Give logarithms of times: theirs is the more nearly normal distribution.
    """
    count = len(values)
    if count < 2:
        return None
    if count < FEWEST_FOR_ORDER:
        return _student(values)
    return _order_statistics(sorted(values))


def _student(values: Sequence[float]) -> Interval:
    from scipy.special import stdtrit  # a third of a second to import: only where it is needed

    count = len(values)
    centre = statistics.fmean(values)
    reach = float(stdtrit(count - 1, (1 + LEVEL) / 2)) * statistics.stdev(values) / math.sqrt(count)
    return Interval(centre - reach, centre + reach)


def _order_statistics(ordered: Sequence[float]) -> Interval:
    count = len(ordered)
    # The interval from the d-th smallest to the d-th largest covers the median as often as a coin
    # that is thrown `count` times shows each side at least d times.
    depth = 1
    while _coverage(depth + 1, count) >= LEVEL:
        depth += 1
    wide, narrow = _coverage(depth, count), _coverage(depth + 1, count)
    share = (wide - LEVEL) / (wide - narrow)
    inward = (count - depth) * share / (depth + (count - 2 * depth) * share)
    return Interval(
        (1 - inward) * ordered[depth - 1] + inward * ordered[depth],
        (1 - inward) * ordered[count - depth] + inward * ordered[count - depth - 1],
    )


def _coverage(depth: int, count: int) -> float:
    below = sum(math.comb(count, k) for k in range(depth))
    return 1 - math.ldexp(below, 1 - count)
