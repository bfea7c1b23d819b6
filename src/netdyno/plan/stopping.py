"""When a run has measured enough: the interval of every ratio is as narrow as was asked."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from netdyno.plan.cell import Cell
from netdyno.stats.estimate import estimate
from netdyno.stats.interval import FEWEST_FOR_ORDER
from netdyno.stats.ratio import paired_ratio

__all__ = ["FEWEST_ROUNDS", "MOST_ROUNDS", "Target"]

# From here on an interval rests on no assumption of how times are distributed.
FEWEST_ROUNDS = FEWEST_FOR_ORDER
# A target that so many rounds do not reach is out of reach: four times as many halve an interval.
MOST_ROUNDS = 50

Blocks = Mapping[int, Sequence[float]]


class Target:
    """Follows a run, and says which cells need another round.

    Cells that are ranked together are a group. It is done when the ratio of each of its cells to
    the fastest has a 95 % interval no wider than ± ``half_width``; a group of one, when the time
    itself has. A cell that yields nothing (it fails, or is always disturbed) holds up nobody.
    """

    def __init__(self, cells: Sequence[Cell], half_width: float) -> None:
        self.half_width = half_width
        self._groups: dict[tuple[object, ...], list[str]] = {}
        self._blocks: dict[str, dict[int, Sequence[float]]] = {cell.key: {} for cell in cells}
        for cell in cells:
            self._groups.setdefault(cell.group, []).append(cell.key)

    def add(self, cell: Cell, round_number: int, blocks: Sequence[float]) -> None:
        """The forward+backward blocks of one trial, in seconds per iteration."""
        if blocks:
            self._blocks[cell.key][round_number] = blocks

    def drop(self, cell: Cell) -> None:
        """Wait no longer for ``cell``, which goes on failing; what it gave decides nothing."""
        self._blocks[cell.key] = {}

    def reached(self, cell: Cell) -> bool:
        """Whether ``cell``'s group needs no further round."""
        widest = self._widest(cell.group)
        return widest is not None and widest <= self.half_width

    def rounds_needed(self, cell: Cell) -> int:
        """All rounds that ``cell``'s group may take: widths shrink as 1 / sqrt(rounds)."""
        keys = self._groups[cell.group]
        done = max(len(self._blocks[key]) for key in keys)
        widest = self._widest(cell.group, fewest=2)
        if widest is None:
            return FEWEST_ROUNDS
        needed = done * (widest / self.half_width) ** 2
        return int(min(MOST_ROUNDS, max(FEWEST_ROUNDS, needed)))

    def _widest(self, group: tuple[object, ...], fewest: int = FEWEST_ROUNDS) -> float | None:
        """The widest half-width of the group, None where ``fewest`` rounds are not there yet."""
        measured = {
            key: self._blocks[key] for key in self._groups[group] if len(self._blocks[key]) > 0
        }
        if not measured or any(len(blocks) < fewest for blocks in measured.values()):
            return None
        return max(_half_widths(measured))


def _half_widths(measured: Mapping[str, Blocks]) -> list[float]:
    if len(measured) == 1:
        (blocks,) = measured.values()
        alone = estimate(list(blocks.values()))
        return [_known(alone.half_width if alone else None)]
    fastest = min(measured, key=lambda key: _centre(measured[key]))
    ratios = [
        paired_ratio(blocks, measured[fastest])
        for key, blocks in measured.items()
        if key != fastest
    ]
    return [_known(ratio.half_width if ratio else None) for ratio in ratios]


def _centre(blocks: Blocks) -> float:
    return statistics.median(statistics.median(values) for values in blocks.values())


def _known(half_width: float | None) -> float:
    return float("inf") if half_width is None else half_width
