"""How far this machine can be trusted: a cell compared with itself, again and again."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from netdyno.stats.ratio import MARGIN, ratio_of_rounds

__all__ = ["Calibration", "calibrate"]

COMPARISONS = 2000
# A slowdown is called findable when so many comparisons of its size would find it.
POWER = 0.9


@dataclass(frozen=True)
class Calibration:
    """Of comparisons of ``rounds`` rounds.

    ``false_alarms``: the share of comparisons of a cell with itself that are called a difference.
    ``half_width``: of the ratio's 95 % interval, the median. ``smallest``: the slowdown that is
    found in 90 % of comparisons, as a share; None where there is no interval.
    """

    rounds: int
    false_alarms: float
    half_width: float | None
    smallest: float | None


def calibrate(processes: Sequence[Sequence[float]], rounds: int, seed: int = 1) -> Calibration:
    """From blocks of one cell, a sequence for each process in the order in which they ran.

    Each two neighbours are a round of A and of A again. Comparisons are made of ``rounds`` rounds
    drawn without replacement, each with its two sides exchanged or not, by chance.

    Raises:
        ValueError: fewer than ``2 * rounds`` processes measured something.
    """
    medians = [statistics.median(blocks) for blocks in processes if blocks]
    pairs = [math.log(b / a) for a, b in zip(medians[::2], medians[1::2], strict=False)]
    if len(pairs) < rounds:
        raise ValueError(f"{len(medians)} processes make no {rounds} rounds")
    draw = random.Random(seed)
    found = [ratio_of_rounds(_drawn(pairs, rounds, draw)) for _ in range(COMPARISONS)]
    alarms = sum(ratio.call() in ("slower", "faster") for ratio in found)
    # What turns a comparison's lower end into one that is just called slower.
    needed = sorted((1 + MARGIN) / ratio.low - 1 for ratio in found if ratio.low is not None)
    widths = [ratio.half_width for ratio in found if ratio.half_width is not None]
    return Calibration(
        rounds,
        alarms / len(found),
        statistics.median(widths) if widths else None,
        needed[math.ceil(POWER * len(needed)) - 1] if needed else None,
    )


def _drawn(pairs: Sequence[float], rounds: int, draw: random.Random) -> list[float]:
    return [value * draw.choice((-1, 1)) for value in draw.sample(pairs, rounds)]
