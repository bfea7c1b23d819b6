"""Rounds: every cell once, in an order that is shuffled anew, so that drift hits all alike."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from netdyno.plan.cell import Cell

__all__ = ["rounds"]


def rounds(cells: Sequence[Cell], count: int, seed: int) -> Iterator[tuple[int, list[Cell]]]:
    """``(round number from 1, cells in the order to measure)``; equal seeds, equal orders."""
    for number in range(1, count + 1):
        order = list(cells)
        random.Random(f"{seed}/{number}").shuffle(order)
        yield number, order
