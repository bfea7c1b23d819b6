"""Where the level of a series of runs changed, how sure that is, and by how much.

The unit is the run: blocks and processes of one run share a machine in one state, so they say
little about what another run would have given. Each run counts once, with the logarithm of the
median over its processes.

Binary segmentation whose splits are accepted by a permutation test, as in E-Divisive (Matteson &
James 2014) and in what MongoDB made of it (Daly et al. 2020), with three differences that short
series with outliers need: ``change_score`` is hard to move by outliers; a bump (slower, and later
as fast as before) is tried beside a single step, as in circular binary segmentation (Olshen et
al. 2004); and every change is tested again between its neighbours.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, permutations

import numpy as np
from numpy.typing import NDArray

from netdyno.stats.change_score import Views, place
from netdyno.stats.shift import shift_interval

__all__ = ["LEAST_RUNS", "SIGNIFICANCE", "ChangePoint", "change_points"]

# Of series without a change, the share in which one is found. The least at which eight runs can
# show anything: four slow ones all at the end or all at the beginning are 2 of 70 orders.
SIGNIFICANCE = 0.03
LEAST_RUNS = 8
# The number of random orders that p is counted in.
SHUFFLES = 999
# So many are enough to see that a series has nothing to show.
FIRST_SHUFFLES = 99
# Up to here every order is tried, so that p is exact where it cannot be small.
ALL_ORDERS = 8


@dataclass(frozen=True)
class ChangePoint:
    """One change of the level.

    ``index`` is the first run after it, ``first`` to ``last`` the 95 % interval of that index.
    ``ratio`` is time after by time before, from the runs between the neighbouring changes, with
    its 95 % interval. ``p`` is how often these runs in random order show as clear a step.
    """

    index: int
    first: int
    last: int
    ratio: float
    ratio_low: float
    ratio_high: float
    p: float


def change_points(runs: Sequence[Sequence[float]], *, seed: int = 1) -> list[ChangePoint]:
    """From the seconds of each run's processes, runs in the order of time.

    The same input gives the same result. Fewer than ``LEAST_RUNS`` runs have no change point.

    Raises:
        ValueError: a run has no process, or a time is not a positive number.
    """
    levels = [statistics.median(run) if run else math.nan for run in runs]
    if not all(0 < level < math.inf for level in levels):
        raise ValueError("every run needs at least one time, and times are positive seconds")
    series = _Series(np.log(np.array(levels, dtype=np.float64)), seed)
    cuts = series.confirmed(series.segmented(0, len(levels)))
    edges = [0, *cuts, len(levels)]
    return [
        series.change(before, cut, after)
        for before, cut, after in zip(edges, cuts, edges[2:], strict=False)
    ]


class _Series:
    """Logarithms of run times; segments are half-open ranges of runs."""

    def __init__(self, values: NDArray[np.float64], seed: int) -> None:
        self._values = values
        self._seed = seed
        self._steps: dict[tuple[int, int], tuple[int, float]] = {}

    def segmented(self, start: int, end: int) -> list[int]:
        """Changes within a segment: the best step or bump, if it is significant, and so on."""
        views = Views(self._values[start:end])
        if end - start < LEAST_RUNS or views.constant:
            return []
        # Shared among the pieces by their length: of all series with one change, too, at most
        # this share shows another. Less than two orders of those tried cannot be asked for.
        share = (end - start) / len(self._values)
        if self._p(views, start, end, bumps=True) > max(share * SIGNIFICANCE, 2 / (1 + SHUFFLES)):
            return []
        cuts = [start + cut for cut in views.best(bumps=True)]
        edges = [start, *cuts, end]
        inner = [self.segmented(a, b) for a, b in pairwise(edges)]
        return sorted(sum(inner, cuts))

    def confirmed(self, cuts: list[int]) -> list[int]:
        """Each change moved to the best place between its neighbours; the doubtful ones dropped."""
        while cuts:
            cuts = self._moved(cuts)
            edges = [0, *cuts, len(self._values)]
            chances = [self._step(a, b)[1] for a, b in zip(edges, edges[2:], strict=False)]
            worst = max(range(len(cuts)), key=chances.__getitem__)
            if chances[worst] <= SIGNIFICANCE:
                break
            cuts = cuts[:worst] + cuts[worst + 1 :]
        return cuts

    def _moved(self, cuts: list[int]) -> list[int]:
        for _ in range(len(cuts) + 1):  # moving one may move its neighbours
            edges = [0, *cuts, len(self._values)]
            for i in range(len(cuts)):
                edges[i + 1] = self._step(edges[i], edges[i + 2])[0]
            if edges[1:-1] == cuts:
                break
            cuts = edges[1:-1]
        return cuts

    def _step(self, start: int, end: int) -> tuple[int, float]:
        """The best single step in a segment, and its p-value."""
        if (start, end) not in self._steps:
            views = Views(self._values[start:end])
            if end - start < LEAST_RUNS or views.constant:
                self._steps[start, end] = (start + end) // 2, 1.0
            else:
                chance = self._p(views, start, end, bumps=False)
                cut, _, _ = place(self._values[start:end], views.best(bumps=False)[0])
                self._steps[start, end] = start + cut, chance
        return self._steps[start, end]

    def _p(self, views: Views, start: int, end: int, *, bumps: bool) -> float:
        """How often the runs in random order score as high; valid for any distribution.

        It assumes that without a change every order of the runs is as likely.
        """
        m = end - start
        seen = views.score(np.arange(m)[np.newaxis], bumps=bumps)[0]
        seen -= 1e-9 * abs(seen)  # the same sums in another order differ in the last digit
        if m <= ALL_ORDERS:
            orders = np.array(list(permutations(range(m))))
            return float(np.mean(views.score(orders, bumps=bumps) >= seen))
        rng = np.random.default_rng((self._seed, start, end, bumps))
        count = total = 0
        for new in (FIRST_SHUFFLES, SHUFFLES - FIRST_SHUFFLES):
            orders = rng.permuted(np.tile(np.arange(m), (new, 1)), axis=1)
            count += int(np.sum(views.score(orders, bumps=bumps) >= seen))
            total += new
            if count > 5 * SIGNIFICANCE * total:
                break
        return (1 + count) / (1 + total)

    def change(self, before: int, cut: int, after: int) -> ChangePoint:
        _, first, last = place(self._values[before:after], cut - before)
        old, new = self._values[before:cut], self._values[cut:after]
        interval = shift_interval(new.tolist(), old.tolist())
        assert interval is not None  # each side has at least three runs
        return ChangePoint(
            index=cut,
            first=before + first,
            last=before + last,
            ratio=math.exp(float(np.median(np.subtract.outer(new, old)))),
            ratio_low=math.exp(interval.low),
            ratio_high=math.exp(interval.high),
            p=self._step(before, after)[1],
        )
