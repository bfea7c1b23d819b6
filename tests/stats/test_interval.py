"""Against SciPy, and against data whose truth is known."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import scipy.stats

from netdyno.stats.interval import median_interval


def test_too_few() -> None:
    assert median_interval([]) is None
    assert median_interval([3.0]) is None


@pytest.mark.parametrize("count", [2, 3, 4, 5])
def test_few_values_agree_with_scipys_t_test(count: int) -> None:
    values = np.random.default_rng(count).normal(3, 1, count)
    expected = scipy.stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert median_interval(values.tolist()) == pytest.approx(tuple(expected), rel=1e-9)


@pytest.mark.parametrize("count", [6, 7, 8, 11, 20, 50])
def test_lies_between_scipys_neighbouring_exact_intervals(count: int) -> None:
    values = sorted(np.random.default_rng(count).lognormal(size=count).tolist())
    found = median_interval(values)
    assert found is not None
    # Half of each tail: the exact quantile test has one of a few levels, the nearest on either side
    # of 95 % are one order statistic apart.
    wide = scipy.stats.quantile_test(values, p=0.5).confidence_interval(0.95)
    assert wide.low <= found.low < found.high <= wide.high
    depth = values.index(wide.low)
    assert found.low <= values[depth + 1]
    assert found.high >= values[values.index(wide.high) - 1]


def test_six_values_by_hand() -> None:
    # From first to last covers 1 - 2/64, from second to fifth 1 - 14/64.
    share = (62 / 64 - 0.95) / (12 / 64)
    inward = 5 * share / (1 + 4 * share)
    found = median_interval([4.0, 2.0, 6.0, 1.0, 5.0, 3.0])
    assert found == pytest.approx((1 + inward, 6 - inward), rel=1e-12)


def test_order_does_not_matter() -> None:
    values = [1.0, 5.0, 2.0, 8.0, 3.0, 4.0, 7.0]
    assert (
        len({median_interval(v) for v in itertools.islice(itertools.permutations(values), 40)}) == 1
    )


def lognormal(rng: np.random.Generator, count: int) -> list[float]:
    return rng.normal(0, 0.03, count).tolist()


def outlying(rng: np.random.Generator, count: int) -> list[float]:
    return (0.02 * rng.standard_t(2, count)).tolist()


def bimodal(rng: np.random.Generator, count: int) -> list[float]:
    """Three processes in ten are 10 % slower. The median lies at the 5/7 quantile of the faster."""
    slow = rng.random(count) < 0.3
    return (np.where(slow, 0.1, 0) + rng.normal(0, 0.01, count)).tolist()


BIMODAL_MEDIAN = 0.01 * float(scipy.stats.norm.ppf(5 / 7))


@pytest.mark.parametrize("count", [6, 8, 11, 20])
@pytest.mark.parametrize(
    ("draw", "truth"), [(lognormal, 0.0), (outlying, 0.0), (bimodal, BIMODAL_MEDIAN)]
)
def test_covers_the_truth_in_95_percent(draw, truth: float, count: int) -> None:  # type: ignore[no-untyped-def]
    rng = np.random.default_rng(count)
    tries = 6000  # a standard error of 0.3 %
    covered = 0
    for _ in range(tries):
        low, high = median_interval(draw(rng, count)) or (math.nan, math.nan)
        covered += low <= truth <= high
    assert 0.93 <= covered / tries <= 0.97


@pytest.mark.parametrize("count", [2, 3, 5])
def test_few_values_cover_the_truth_where_it_is_lognormal(count: int) -> None:
    rng = np.random.default_rng(count)
    tries = 6000
    covered = 0
    for _ in range(tries):
        low, high = median_interval(lognormal(rng, count)) or (math.nan, math.nan)
        covered += low <= 0 <= high
    assert 0.93 <= covered / tries <= 0.97
