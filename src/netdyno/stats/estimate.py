"""One number, and how far it may be off, from blocks of several processes."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Estimate", "estimate"]


@dataclass(frozen=True)
class Estimate:
    """``seconds``: median over processes of each process's median block.

    ``spread`` is half the distance between the fastest and the slowest process's median as a
    share of ``seconds``; with a single process, between the quartiles of its blocks.
    """

    seconds: float
    spread: float
    processes: int
    blocks: int


def estimate(processes: Sequence[Sequence[float]]) -> Estimate | None:
    """From seconds per iteration, one sequence for each process; None where there are none.

    The median of medians, not the mean: a block that the machine disturbed is longer, never
    shorter, and processes differ among themselves (Kalibera & Jones 2013).
    """
    filled = [list(blocks) for blocks in processes if blocks]
    if not filled:
        return None
    medians = [statistics.median(blocks) for blocks in filled]
    centre = statistics.median(medians)
    low, high = (min(medians), max(medians)) if len(medians) > 1 else _quartiles(filled[0])
    return Estimate(
        centre,
        (high - low) / 2 / centre if centre else 0.0,
        len(filled),
        sum(len(blocks) for blocks in filled),
    )


def _quartiles(values: Sequence[float]) -> tuple[float, float]:
    if len(values) < 2:
        return values[0], values[0]
    first, _, third = statistics.quantiles(values, n=4, method="inclusive")
    return first, third
