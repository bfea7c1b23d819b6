"""Against figures worked out by hand, and against NumPy."""

from __future__ import annotations

import math

import numpy as np
import pytest

from netdyno.stats.estimate import Estimate, estimate
from netdyno.stats.interval import median_interval


def test_nothing_measured() -> None:
    assert estimate([]) is None
    assert estimate([[], []]) is None


def test_median_of_medians_by_hand() -> None:
    found = estimate([[1.0, 2.0, 9.0], [2.0, 4.0], [8.0]])
    assert found is not None
    assert (found.seconds, found.processes, found.blocks) == (3.0, 3, 6)
    # Student's t with 2 degrees of freedom around the mean logarithm of 2, 3 and 8.
    logs = np.log([2, 3, 8])
    reach = 4.302653 * logs.std(ddof=1) / math.sqrt(3)
    assert (found.low, found.high) == pytest.approx(
        tuple(np.exp([logs.mean() - reach, logs.mean() + reach])), rel=1e-6
    )


def test_a_disturbed_block_does_not_move_it() -> None:
    calm = estimate([[2.0, 2.0, 2.0], [2.0, 2.0, 2.0]])
    disturbed = estimate([[2.0, 2.0, 900.0], [2.0, 2.0, 2.0]])
    assert calm == disturbed == Estimate(2.0, 2.0, 2.0, 2, 6, 0)


def test_outliers_are_kept_and_counted() -> None:
    found = estimate([[2.0, 2.1, 2.2, 2.3, 2.4, 50.0], [2.0, 2.1, 2.2, 2.3, 2.4]])
    assert found is not None
    assert (found.blocks, found.outliers) == (11, 1)


def test_processes_that_measured_nothing_do_not_count() -> None:
    assert estimate([[], [2.0, 2.0], []]) == Estimate(2.0, None, None, 1, 2, 0)


def test_one_process_has_no_interval() -> None:
    found = estimate([[5.0, 1.0, 4.0, 2.0, 3.0]])
    assert found == Estimate(3.0, None, None, 1, 5, 0)
    assert found.half_width is None


def test_zero_seconds_have_no_logarithm() -> None:
    found = estimate([[0.0], [0.0]])
    assert found == Estimate(0.0, None, None, 2, 2, 0)
    assert found.half_width is None


@pytest.mark.parametrize("processes", [2, 3, 6, 9])
@pytest.mark.parametrize("blocks", [2, 3, 10])
def test_is_of_the_processes_medians(processes: int, blocks: int) -> None:
    samples = np.random.default_rng(processes * blocks).lognormal(size=(processes, blocks))
    medians = np.median(samples, axis=1)
    interval = median_interval(np.log(medians).tolist())
    found = estimate(samples.tolist())
    assert found is not None
    assert interval is not None
    assert found.seconds == pytest.approx(np.median(medians), rel=1e-12)
    assert (found.low, found.high) == pytest.approx(tuple(np.exp(interval)), rel=1e-9)
    assert found.half_width == pytest.approx((found.high - found.low) / 2 / found.seconds)  # type: ignore[operator]
    assert (found.processes, found.blocks) == (processes, samples.size)
