"""How clearly a series of values shows one step or one bump, whatever outliers it holds.

The gain in likelihood of a step over no change, of normal values, taken in two views of which the
clearer one counts. *Clipped* values show a step that only a few values are behind, but outliers of
more than the step's own size may hide one in the middle. *Ranks* cannot be moved by outliers, but
a few values have few ranks to gain.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

__all__ = ["LEAST_SEGMENT", "Views", "place"]

# On each side of a change: one run apart from the others is an outlier, however far.
LEAST_SEGMENT = 3
# A longer bump is found by its two steps, one after the other; this bounds the time.
LONGEST_BUMP = 50
# Farther from the median than this many deviations, a value counts as if it were just there.
CLIP = 3.0
CONFIDENCE = 0.95

Array = NDArray[np.float64]


class Views:
    """The values of one segment; scores hold for them in any order."""

    def __init__(self, values: Array) -> None:
        self.constant = not len(values) or float(np.ptp(values)) == 0
        self._views = (
            [] if self.constant else [_standard(clipped(values)), _standard(ranks(values))]
        )
        self._m = len(values)

    def score(self, orders: NDArray[np.intp], *, bumps: bool) -> Array:
        """How clearly the values show a change in each of the orders, which are rows."""
        scores = [_score(view[orders], bumps=bumps) for view in self._views]
        result: Array = np.max(scores, axis=0)
        return result

    def best(self, *, bumps: bool) -> list[int]:
        """The number of values before the best step, or before and up to the end of a bump."""
        return max((_best(view, bumps=bumps) for view in self._views), key=lambda found: found[0])[
            1
        ]


def place(values: Array, cut: int) -> tuple[int, int, int]:
    """Where a step lies that was found at ``cut``: the best place, and the interval, 95 %.

    All are numbers of values before it. The interval holds the highest positions of the posterior
    with flat priors on the position, both levels and the logarithm of the deviation (Smith 1975).
    At either end it goes on to a single value, which the best place must not leave on a side.
    """
    m = len(values)
    shares = _steps(_sums(_standard(_between_levels(values, cut))[np.newaxis]), least=1)[0]
    best = LEAST_SEGMENT + int(shares[LEAST_SEGMENT - 1 : m - LEAST_SEGMENT].argmax())
    low = 1 if best == LEAST_SEGMENT else LEAST_SEGMENT
    high = m - (1 if best == m - LEAST_SEGMENT else LEAST_SEGMENT)
    k = np.arange(low, high + 1)
    weight = (m - 2) / m * _likelihood(shares[k - 1], m) - np.log(k * (m - k)) / 2
    weight = np.exp(weight - weight.max())
    order = np.argsort(-weight, kind="stable")
    enough = int(np.searchsorted(np.cumsum(weight[order]) / weight.sum(), CONFIDENCE)) + 1
    inside = k[order[:enough]]
    return best, min(best, int(inside.min())), max(best, int(inside.max()))


def _between_levels(values: Array, cut: int) -> Array:
    """Outliers pulled towards the level that they are nearest to, now that there are two."""
    before, after = np.median(values[:cut]), np.median(values[cut:])
    if before == after:
        return clipped(values)
    distance = np.abs(np.concatenate([values[:cut] - before, values[cut:] - after]))
    reach = CLIP * 1.4826 * np.median(distance)
    result: Array = np.clip(values, min(before, after) - reach, max(before, after) + reach)
    return result


def clipped(values: Array) -> Array:
    """Outliers pulled to ``CLIP`` deviations from the median, so that none makes a change."""
    centre = np.median(values)
    distance = np.abs(values - centre)
    # The median distance is 0 where most runs agree to the last digit: the mean one then.
    deviation = 1.4826 * np.median(distance) or 1.2533 * np.mean(distance)
    result: Array = np.clip(values, centre - CLIP * deviation, centre + CLIP * deviation)
    return result


def ranks(values: Array) -> Array:
    """From 1; equal values share the mean of theirs."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    result: Array = (last - (counts - 1) / 2)[inverse]
    return result


def _standard(values: Array) -> Array:
    """With mean 0 and a sum of squares of 1."""
    centred = values - values.mean()
    result: Array = centred / math.sqrt(float(np.sum(centred**2)))
    return result


def _sums(rows: Array) -> Array:
    """Of the first k values of each row, a column for each k from 0."""
    result: Array = np.concatenate([np.zeros((len(rows), 1)), np.cumsum(rows, axis=1)], axis=1)
    return result


def _steps(sums: Array, least: int = LEAST_SEGMENT) -> Array:
    """The share of the squares that a step explains, a column for each number before it."""
    m = sums.shape[1] - 1
    k = np.arange(least, m - least + 1)
    result: Array = sums[:, k] ** 2 * (m / (k * (m - k)))
    return result


def _bumps(sums: Array, length: int) -> Array:
    """The share for each bump of one length is the square of this: a column for each start."""
    m = sums.shape[1] - 1
    start, stop = LEAST_SEGMENT, m - LEAST_SEGMENT - length + 1
    inside = sums[:, start + length : stop + length] - sums[:, start:stop]
    inside *= math.sqrt(m / (length * (m - length)))
    return inside


def _lengths(m: int) -> range:
    """Of bumps in a row of m values, with a segment on both sides."""
    return range(LEAST_SEGMENT, min(m - 2 * LEAST_SEGMENT, LONGEST_BUMP) + 1)


def _likelihood(shares: Array, m: int) -> Array:
    """The logarithm of the likelihood's ratio to no change; finite where nothing is left over."""
    result: Array = -m / 2 * np.log(np.maximum(1 - shares, 1e-12))
    return result


def _score(rows: Array, *, bumps: bool) -> Array:
    """Of each row. A bump has one more position to choose: BIC's penalty for it."""
    m = rows.shape[1]
    sums = _sums(rows)
    scores = _likelihood(_steps(sums).max(axis=1), m)
    if bumps and (lengths := _lengths(m)):
        best = np.zeros(len(rows))
        for length in lengths:
            inside = _bumps(sums, length)
            best = np.maximum(best, np.maximum(inside.max(axis=1), -inside.min(axis=1)))
        scores = np.maximum(scores, _likelihood(best**2, m) - math.log(m))
    return scores


def _best(row: Array, *, bumps: bool) -> tuple[float, list[int]]:
    """The best change of one row: its score, and where it is."""
    m = len(row)
    sums = _sums(row[np.newaxis])
    step = _likelihood(_steps(sums)[0], m)
    best = float(step.max()), [LEAST_SEGMENT + int(step.argmax())]
    for length in _lengths(m) if bumps else ():
        bump = _likelihood(_bumps(sums, length)[0] ** 2, m) - math.log(m)
        start = LEAST_SEGMENT + int(bump.argmax())
        best = max(best, (float(bump.max()), [start, start + length]))
    return best
