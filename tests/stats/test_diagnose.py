"""On simulated blocks whose truth is known; Kendall's S against SciPy."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

from netdyno.stats.diagnose import _kendall, disagreement, trend
from netdyno.stats.outliers import outliers


def blocks(rng: np.random.Generator, processes: int = 4, count: int = 10) -> np.ndarray:
    return np.exp(rng.normal(0, 0.01, (processes, count)))


def test_kendalls_s_agrees_with_scipy() -> None:
    values = np.random.default_rng(3).normal(size=12)
    tau = scipy.stats.kendalltau(np.arange(12), values).statistic
    assert _kendall(values.tolist()) == pytest.approx(tau * 12 * 11 / 2)


def test_a_slow_warm_up_is_seen_and_its_size_told() -> None:
    getting_faster = blocks(np.random.default_rng(1)) * np.linspace(1.05, 0.95, 10)
    assert trend(getting_faster.tolist()) == pytest.approx(-0.1, abs=0.02)
    assert trend(getting_faster[:, ::-1].tolist()) == pytest.approx(0.1, abs=0.02)


def test_noise_has_no_trend_and_no_disagreement() -> None:
    rng = np.random.default_rng(2)
    found = [
        (trend(b.tolist()), disagreement(b.tolist())) for b in (blocks(rng) for _ in range(300))
    ]
    assert sum(t is not None for t, _ in found) <= 1
    assert sum(d is not None for _, d in found) == 0


def test_too_few_blocks_say_nothing() -> None:
    assert trend([[4.0, 3.0, 2.0, 1.0]]) is None
    assert disagreement([[1.0, 1.1]]) is None
    assert disagreement([]) is None


def test_processes_in_two_modes_disagree() -> None:
    two_modes = blocks(np.random.default_rng(4)) * np.array([[1.0], [1.1], [1.0], [1.1]])
    assert disagreement(two_modes.tolist()) == pytest.approx(0.055, abs=0.01)


def test_noisy_blocks_explain_processes_that_differ() -> None:
    noisy = np.exp(np.random.default_rng(5).normal(0, 0.2, (4, 5)))
    assert disagreement(noisy.tolist()) is None


def test_outliers_lie_beyond_tukeys_outer_fence() -> None:
    values = [1.0, 1.1, 1.2, 1.3, 1.4, 9.0, 1.2]
    low, high = np.quantile(values, [0.25, 0.75])
    assert outliers(values) == [5]
    assert 9.0 > high + 3 * (high - low) > 1.4
    assert outliers([1.0, 1.0, 1.0, 9.0]) == []  # too few to tell
