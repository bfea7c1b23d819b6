"""One number, and how far it may be off, from blocks of several processes."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from netdyno.stats.interval import median_interval
from netdyno.stats.outliers import outliers

__all__ = ["Estimate", "estimate"]


@dataclass(frozen=True)
class Estimate:
    """``seconds``: median over processes of each process's median block.

    ``low`` to ``high`` is its 95 % interval; None where a single process was measured, since
    nothing tells how much the next one would differ. ``outliers``: blocks far above their
    process's others; they are kept, and a median hardly feels them.
    """

    seconds: float
    low: float | None
    high: float | None
    processes: int
    blocks: int
    outliers: int

    @property
    def half_width(self) -> float | None:
        """Of the interval, as a share of ``seconds``."""
        if self.low is None or self.high is None or not self.seconds:
            return None
        return (self.high - self.low) / 2 / self.seconds


def estimate(processes: Sequence[Sequence[float]]) -> Estimate | None:
    """From seconds per iteration, one sequence for each process; None where there are none.

    The median of medians, not the mean: a block that the machine disturbed is longer, never
    shorter, and processes differ among themselves (Kalibera & Jones 2013). The interval is that of
    the processes' medians, which hold the blocks' noise already.
    """
    filled = [list(blocks) for blocks in processes if blocks]
    if not filled:
        return None
    medians = [statistics.median(blocks) for blocks in filled]
    # Times are never zero but where a clock is coarse: then there is no logarithm.
    interval = median_interval([math.log(m) for m in medians]) if min(medians) > 0 else None
    return Estimate(
        seconds=statistics.median(medians),
        low=math.exp(interval.low) if interval else None,
        high=math.exp(interval.high) if interval else None,
        processes=len(filled),
        blocks=sum(len(blocks) for blocks in filled),
        outliers=sum(len(outliers(blocks)) for blocks in filled),
    )
