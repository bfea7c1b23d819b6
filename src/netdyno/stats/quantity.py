"""A figure that each process gives once, with its interval over processes."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from netdyno.stats.interval import median_interval

__all__ = ["Quantity", "quantity"]


@dataclass(frozen=True)
class Quantity:
    """Median of ``processes`` values and its 95 % interval; None for that of a single one."""

    value: float
    low: float | None
    high: float | None
    processes: int

    @property
    def half_width(self) -> float | None:
        """Of the interval, as a share of ``value``."""
        if self.low is None or self.high is None or not self.value:
            return None
        return (self.high - self.low) / 2 / self.value


def quantity(values: Sequence[float]) -> Quantity | None:
    """Of positive values, one for each process; None where there are none."""
    if not values:
        return None
    interval = median_interval([math.log(value) for value in values])
    return Quantity(
        statistics.median(values),
        math.exp(interval.low) if interval else None,
        math.exp(interval.high) if interval else None,
        len(values),
    )
