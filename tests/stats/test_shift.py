"""Against SciPy's Mann-Whitney and Welch tests, and against data whose truth is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats

from netdyno.stats.shift import mann_whitney, shift_interval


@pytest.mark.parametrize(("m", "n"), [(1, 1), (2, 5), (4, 4), (6, 9)])
def test_null_distribution_agrees_with_scipy(m: int, n: int) -> None:
    chances = mann_whitney(m, n)
    assert sum(chances) == pytest.approx(1)
    for u in range(m * n + 1):
        # Two samples whose U is u: SciPy's exact one-sided p-value is the chance of u or less.
        first, second = samples_with(u, m, n)
        found = scipy.stats.mannwhitneyu(first, second, alternative="less", method="exact")
        assert found.statistic == u
        assert sum(chances[: u + 1]) == pytest.approx(found.pvalue, rel=1e-9)


def samples_with(u: int, m: int, n: int) -> tuple[list[float], list[float]]:
    """``m`` values, the i-th of them above so many of 1..n that all together are above ``u``."""
    first = []
    for i in range(m):
        above = min(n, u)
        u -= above
        first.append(above + 0.5 + i / (10 * m))
    return first, [float(j) for j in range(1, n + 1)]


@pytest.mark.parametrize(("m", "n"), [(2, 2), (2, 7), (3, 3)])
def test_small_samples_agree_with_scipys_welch_test(m: int, n: int) -> None:
    rng = np.random.default_rng(m * n)
    first, second = rng.normal(1, 2, m), rng.normal(0, 1, n)
    expected = scipy.stats.ttest_ind(first, second, equal_var=False).confidence_interval(0.95)
    found = shift_interval(first.tolist(), second.tolist())
    assert found == pytest.approx(tuple(expected), rel=1e-9)


@pytest.mark.parametrize(("m", "n"), [(3, 6), (4, 4), (10, 7), (3, 30), (20, 12), (25, 30)])
def test_holds_the_shifts_that_scipys_mann_whitney_test_does_not_refuse(m: int, n: int) -> None:
    rng = np.random.default_rng(m + n)
    first, second = rng.normal(2, 1, m), rng.normal(0, 1, n)
    found = shift_interval(first.tolist(), second.tolist())
    assert found is not None

    def p(by: float) -> float:
        return float(scipy.stats.mannwhitneyu(first - by, second, method="exact").pvalue)

    # Interpolated between the last difference that is refused and the first that is not.
    differences = np.sort(np.subtract.outer(first, second).ravel())
    step_low = np.searchsorted(differences, found.low, side="right")
    step_high = np.searchsorted(differences, found.high, side="left")
    assert p(differences[step_low - 1] - 1e-9) <= 0.05 < p(differences[step_low] + 1e-9)
    assert p(differences[step_high] + 1e-9) <= 0.05 < p(differences[step_high - 1] - 1e-9)


def test_a_single_value_has_no_interval() -> None:
    assert shift_interval([1.0], [1.0, 2.0, 3.0]) is None


@pytest.mark.parametrize(("m", "n"), [(4, 4), (3, 8), (6, 6), (12, 7)])
@pytest.mark.parametrize("modes", [1, 2])
def test_covers_the_truth_in_95_percent(m: int, n: int, modes: int) -> None:
    rng = np.random.default_rng(m * n)

    def draw(count: int) -> np.ndarray:
        slow = (rng.random(count) < 0.3) * (modes == 2)
        return 0.1 * slow + rng.normal(0, 0.01, count)

    tries = 5000
    covered = 0
    for _ in range(tries):
        first, second = draw(m) + 0.05, draw(n)
        low, high = shift_interval(first.tolist(), second.tolist()) or (math.nan, math.nan)
        covered += low <= 0.05 <= high
    assert 0.93 <= covered / tries <= 0.97
