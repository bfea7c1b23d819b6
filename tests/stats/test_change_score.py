"""The score of a change against sums written out."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import rankdata

from netdyno.stats.change_score import LEAST_SEGMENT, Views, clipped, place, ranks


def squares(values: np.ndarray) -> float:
    return float(np.sum((values - values.mean()) ** 2))


def written_out(values: np.ndarray, *, bumps: bool) -> tuple[float, list[int]]:
    """The best of every step and bump, each fitted on its own."""
    m, least = len(values), LEAST_SEGMENT
    best = (-math.inf, [0])
    for k in range(least, m - least + 1):
        left = squares(values[:k]) + squares(values[k:])
        best = max(best, (m / 2 * math.log(squares(values) / left), [k]))
    for i in range(least, m - 2 * least + 1) if bumps else ():
        for j in range(i + least, m - least + 1):
            outside = np.concatenate([values[:i], values[j:]])
            left = squares(values[i:j]) + squares(outside)
            score = m / 2 * math.log(squares(values) / left) - math.log(m)
            best = max(best, (score, [i, j]))
    return best


@pytest.mark.parametrize("count", [8, 13, 30])
@pytest.mark.parametrize("bumps", [False, True])
def test_score_and_place(count: int, bumps: bool) -> None:
    rng = np.random.default_rng(count)
    values = rng.normal(0, 1, count)
    values[count // 3 : count // 3 + 4] += 2
    values[-1] += 40
    orders = np.array([rng.permutation(count) for _ in range(20)])
    scores = Views(values).score(orders, bumps=bumps)
    for order, score in zip(orders, scores, strict=True):
        references = [
            written_out(view[order], bumps=bumps) for view in (clipped(values), rankdata(values))
        ]
        assert score == pytest.approx(max(references)[0])
        assert Views(values[order]).best(bumps=bumps) == max(references)[1]


def test_ranks() -> None:
    values = np.array([3.0, 1.0, 3.0, 2.0, 3.0, 1.0])
    np.testing.assert_array_equal(ranks(values), rankdata(values))


def test_clipping() -> None:
    values = np.array([-1.0, 0.0, 1.0, -2.0, 2.0, 100.0, -100.0, 0.0])
    distance = 3 * 1.4826 * 1.5
    np.testing.assert_allclose(clipped(values)[[5, 6]], [distance, -distance])
    np.testing.assert_array_equal(clipped(values)[:5], values[:5])


def test_clipping_where_most_values_are_equal() -> None:
    values = np.array([1.0] * 9 + [2.0])
    np.testing.assert_allclose(clipped(values), [1.0] * 9 + [1 + 3 * 1.2533 * 0.1])


def test_interval_where_nothing_tells_the_places_apart() -> None:
    _, first, last = place(np.array([0.0, 1.0] * 10), 10)
    assert (first, last) == (1, 17)


def test_place_of_a_clear_step() -> None:
    values = np.random.default_rng(4).normal(0, 0.1, 30)
    values[22:] += 2
    values[3] = 60  # farther than the other level
    values[27] = -60
    for cut in (20, 22, 25):
        best, first, last = place(values, cut)
        assert best == 22
        assert 21 <= first <= last <= 23


def test_a_place_has_three_values_on_each_side_but_its_interval_need_not() -> None:
    values = np.random.default_rng(4).normal(0, 0.1, 30)
    values[28:] += 2
    best, first, last = place(values, 27)
    assert (best, first, last) == (27, 27, 28)
