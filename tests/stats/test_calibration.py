"""Calibration against comparisons that are really made, of data whose noise is known."""

from __future__ import annotations

import numpy as np
import pytest

from netdyno.stats.calibration import calibrate
from netdyno.stats.ratio import paired_ratio

NOISE = 0.02


def processes(count: int, seed: int = 1) -> list[list[float]]:
    rng = np.random.default_rng(seed)
    return np.exp(rng.normal(0, NOISE, (count, 1)) + rng.normal(0, 0.001, (count, 5))).tolist()


def test_a_machine_without_noise() -> None:
    found = calibrate([[1.0]] * 40, rounds=6)
    assert found.false_alarms == 0
    assert found.half_width == 0
    assert found.smallest == pytest.approx(0.01)  # the margin, below which nothing is called


def test_too_few_processes_for_the_rounds() -> None:
    with pytest.raises(ValueError, match="11 processes make no 6 rounds"):
        calibrate([[1.0]] * 11, rounds=6)


def test_more_rounds_find_smaller_slowdowns() -> None:
    data = processes(400)
    few, many = calibrate(data, rounds=6), calibrate(data, rounds=24)
    assert few.smallest is not None
    assert many.smallest is not None
    assert many.smallest < 0.6 * few.smallest
    assert few.false_alarms <= 0.05
    assert many.false_alarms <= 0.05


@pytest.mark.parametrize("rounds", [6, 12])
def test_the_smallest_slowdown_is_found_in_nine_of_ten_new_comparisons(rounds: int) -> None:
    smallest = calibrate(processes(2000), rounds).smallest
    assert smallest is not None
    found = 0
    tries = 1000
    for seed in range(tries):
        a, b = processes(rounds, 10 + 2 * seed), processes(rounds, 11 + 2 * seed)
        slower = [[value * (1 + smallest) for value in blocks] for blocks in b]
        ratio = paired_ratio(dict(enumerate(slower)), dict(enumerate(a)))
        assert ratio is not None
        found += ratio.call() == "slower"
    assert found / tries == pytest.approx(0.9, abs=0.04)
