"""Rounds: every cell once, in an order that is shuffled anew, so that drift hits all alike."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from netdyno.plan.cell import Cell

__all__ = ["round_order", "rounds"]


def round_order(cells: Sequence[Cell], number: int, seed: int) -> list[Cell]:
    """``cells`` as round ``number``, from 1, measures them; equal seeds, equal orders."""
    shuffled = list(cells)
    random.Random(f"{seed}/{number}").shuffle(shuffled)
    return shuffled


def rounds(cells: Sequence[Cell], count: int, seed: int) -> Iterator[tuple[int, list[Cell]]]:
    """``(round number from 1, cells in the order to measure)``."""
    for number in range(1, count + 1):
        yield number, round_order(cells, number, seed)
