"""Against figures worked out by hand, and against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from netdyno.stats.estimate import Estimate, estimate


def test_nothing_measured() -> None:
    assert estimate([]) is None
    assert estimate([[], []]) is None


def test_median_of_medians_by_hand() -> None:
    # Medians 2, 3 and 8: their median is 3, and (8 - 2) / 2 / 3 is 1.
    found = estimate([[1.0, 2.0, 9.0], [2.0, 4.0], [8.0]])
    assert found == Estimate(seconds=3.0, spread=1.0, processes=3, blocks=6)


def test_a_disturbed_block_does_not_move_it() -> None:
    calm = estimate([[2.0, 2.0, 2.0], [2.0, 2.0, 2.0]])
    disturbed = estimate([[2.0, 2.0, 900.0], [2.0, 2.0, 2.0]])
    assert calm == disturbed == Estimate(2.0, 0.0, 2, 6)


def test_processes_that_measured_nothing_do_not_count() -> None:
    found = estimate([[], [2.0, 2.0], []])
    assert found == Estimate(2.0, 0.0, 1, 2)


def test_one_process_spreads_over_its_quartiles() -> None:
    # Quartiles 2 and 4 around the median 3.
    found = estimate([[5.0, 1.0, 4.0, 2.0, 3.0]])
    assert found == Estimate(3.0, pytest.approx(1 / 3), 1, 5)


def test_one_block_has_no_spread() -> None:
    assert estimate([[4.0]]) == Estimate(4.0, 0.0, 1, 1)


def test_zero_seconds_do_not_divide() -> None:
    assert estimate([[0.0], [0.0]]) == Estimate(0.0, 0.0, 2, 2)


@pytest.mark.parametrize("processes", [1, 2, 3, 6])
@pytest.mark.parametrize("blocks", [2, 3, 10])
def test_agrees_with_numpy(processes: int, blocks: int) -> None:
    samples = np.random.default_rng(processes * blocks).lognormal(size=(processes, blocks))
    medians = np.median(samples, axis=1)
    low, high = medians.min(), medians.max()
    if processes == 1:
        low, high = np.quantile(samples[0], [0.25, 0.75])
    centre = np.median(medians)
    found = estimate(samples.tolist())
    assert found is not None
    assert found.seconds == pytest.approx(centre, rel=1e-12)
    assert found.spread == pytest.approx((high - low) / 2 / centre, rel=1e-9)
    assert (found.processes, found.blocks) == (processes, samples.size)
