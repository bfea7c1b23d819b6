"""How many times slower one cell is than another, and how far that may be off."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from netdyno.stats.interval import Interval, median_interval
from netdyno.stats.shift import shift_interval

__all__ = ["MARGIN", "Call", "Ratio", "paired_ratio", "ratio_of_rounds", "unpaired_ratio"]

# A difference below this is not called one, however sure it is: where the linker or the loader
# happened to put code and data makes as much (Mytkowicz et al., ASPLOS 2009).
MARGIN = 0.01

Call = Literal["slower", "faster", "same", "undecided"]


@dataclass(frozen=True)
class Ratio:
    """``value``: time of the first over time of the second; above 1, the first is slower.

    ``low`` to ``high`` is its 95 % interval, None where there are too few processes for one.
    ``paired``: each round's ratio was taken on its own, so that what slowed both cells of a round
    cancels. ``count``: rounds if paired, else the processes of the cell that has fewer.
    """

    value: float
    low: float | None
    high: float | None
    paired: bool
    count: int

    @property
    def half_width(self) -> float | None:
        """Of the interval, as a share of ``value``."""
        if self.low is None or self.high is None:
            return None
        return (self.high - self.low) / 2 / self.value

    def call(self, margin: float = MARGIN) -> Call:
        """What may be said of it: ``slower`` or ``faster`` only where the whole interval says so.

        ``same``: the whole interval lies within ``margin`` of 1. ``undecided``: it does neither.
        """
        if self.low is None or self.high is None:
            return "undecided"
        if self.low > 1 + margin:
            return "slower"
        if self.high < 1 / (1 + margin):
            return "faster"
        within = 1 / (1 + margin) <= self.low and self.high <= 1 + margin
        return "same" if within else "undecided"

    def inverse(self) -> Ratio:
        """The second over the first."""
        low = 1 / self.high if self.high is not None else None
        high = 1 / self.low if self.low is not None else None
        return Ratio(1 / self.value, low, high, self.paired, self.count)


def paired_ratio(
    first: Mapping[int, Sequence[float]], second: Mapping[int, Sequence[float]]
) -> Ratio | None:
    """From blocks of two cells of one run, seconds per iteration by round.

    Rounds in which only one of them was measured do not count; None where no round has both.
    """
    a, b = _medians(first), _medians(second)
    differences = [math.log(a[number] / b[number]) for number in a if number in b]
    if not differences:
        return None
    return ratio_of_rounds(differences)


def ratio_of_rounds(differences: Sequence[float]) -> Ratio:
    """From each round's logarithm of first over second."""
    centre = statistics.median(differences)
    return _ratio(centre, median_interval(differences), True, len(differences))


def unpaired_ratio(
    first: Sequence[Sequence[float]], second: Sequence[Sequence[float]]
) -> Ratio | None:
    """From blocks of two cells of different runs, one sequence for each process.

    The median of all quotients of a process of one by a process of the other (Hodges & Lehmann
    1963), with the interval that inverts the Mann-Whitney test.
    """
    a = list(_medians(dict(enumerate(first))).values())
    b = list(_medians(dict(enumerate(second))).values())
    if not a or not b:
        return None
    a, b = [math.log(value) for value in a], [math.log(value) for value in b]
    centre = statistics.median(x - y for x in a for y in b)
    return _ratio(centre, shift_interval(a, b), False, min(len(a), len(b)))


def _medians(blocks: Mapping[int, Sequence[float]]) -> dict[int, float]:
    medians = {number: statistics.median(values) for number, values in blocks.items() if values}
    return {number: value for number, value in medians.items() if value > 0}


def _ratio(centre: float, interval: Interval | None, paired: bool, count: int) -> Ratio:
    low, high = map(math.exp, interval) if interval else (None, None)
    return Ratio(math.exp(centre), low, high, paired, count)
