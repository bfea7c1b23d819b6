"""What is odd about a cell's blocks: a trend that warm-up did not end, processes that disagree."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from itertools import combinations

__all__ = ["disagreement", "trend"]

# Fewer blocks have no trend that could be told from noise.
FEWEST_BLOCKS = 5
# Standard deviations of Kendall's S under no trend.
SURE = 3.0
# Smaller than this, nobody need mind.
NOTABLE = 0.02
# Between processes, in standard errors that the blocks within them would explain.
UNEXPLAINED = 3.0


def trend(processes: Sequence[Sequence[float]]) -> float | None:
    """The change from first to last block, as a share, where processes agree that there is one.

    None for no trend: Kendall's S, summed over processes, within 3 standard deviations of zero
    (Mann 1945), or a change (Theil & Sen's slope) below 2 %. Negative: it was still getting faster.
    """
    long_enough = [list(blocks) for blocks in processes if len(blocks) >= FEWEST_BLOCKS]
    if not long_enough:
        return None
    score = sum(_kendall(blocks) for blocks in long_enough)
    variance = sum(n * (n - 1) * (2 * n + 5) / 18 for n in map(len, long_enough))
    if abs(score) <= SURE * math.sqrt(variance):
        return None
    change = statistics.median(_change(blocks) for blocks in long_enough)
    return change if abs(change) >= NOTABLE else None


def _kendall(values: Sequence[float]) -> int:
    return sum((b > a) - (b < a) for a, b in combinations(values, 2))


def _change(values: Sequence[float]) -> float:
    indexed = combinations(enumerate(values), 2)
    slope = statistics.median((b - a) / (j - i) for (i, a), (j, b) in indexed)
    return slope * (len(values) - 1) / statistics.median(values)


def disagreement(processes: Sequence[Sequence[float]]) -> float | None:
    """Standard deviation between processes, as a share, where their blocks do not explain it.

    None where it is below 2 %, or below 3 times the standard error that the blocks within each
    process give its median: then more blocks would do as well as more processes.
    """
    filled = [list(blocks) for blocks in processes if len(blocks) >= 2 and min(blocks) > 0]
    if len(filled) < 2:
        return None
    between = statistics.stdev(math.log(statistics.median(blocks)) for blocks in filled)
    # 1.25: the standard error of a normal sample's median over that of its mean.
    within = statistics.fmean(
        1.25 * statistics.stdev(map(math.log, blocks)) / math.sqrt(len(blocks)) for blocks in filled
    )
    return between if between >= max(NOTABLE, UNEXPLAINED * within) else None
