"""Against figures worked out by hand, and against simulated runs whose truth is known."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from netdyno.stats.ratio import Ratio, paired_ratio, unpaired_ratio

Blocks = dict[int, list[float]]


def test_paired_by_hand() -> None:
    # The machine is twice as slow in round 2, three times in round 3: the ratio stays.
    first = {1: [3.0, 3.0], 2: [6.0, 90.0, 6.0], 3: [9.0], 4: [1.0]}
    second = {1: [2.0], 2: [4.0], 3: [6.0, 6.0, 6.0], 5: [1.0]}
    found = paired_ratio(first, second)
    assert found is not None
    assert (found.value, found.low, found.high) == pytest.approx((1.5, 1.5, 1.5))
    assert (found.paired, found.count) == (True, 3)


def test_no_round_in_common() -> None:
    assert paired_ratio({1: [1.0]}, {2: [1.0]}) is None
    assert paired_ratio({1: []}, {1: [1.0]}) is None


def test_one_round_has_no_interval() -> None:
    found = paired_ratio({1: [2.0]}, {1: [1.0]})
    assert found == Ratio(2.0, None, None, True, 1)
    assert found.call() == "undecided"
    assert found.half_width is None


def test_unpaired_by_hand() -> None:
    found = unpaired_ratio([[2.0], [4.0], [8.0]], [[1.0], [1.0]])
    assert found is not None
    assert found.value == pytest.approx(4.0)
    assert (found.paired, found.count) == (False, 2)
    assert unpaired_ratio([[1.0]], []) is None


@pytest.mark.parametrize(
    ("low", "high", "call"),
    [
        (1.02, 1.05, "slower"),
        (1.005, 1.05, "undecided"),  # surely above 1, but perhaps by less than the margin
        (0.995, 1.005, "same"),
        (0.98, 1.0, "undecided"),
        (0.90, 0.97, "faster"),
        (0.90, 1.10, "undecided"),
    ],
)
def test_calls(low: float, high: float, call: str) -> None:
    ratio = Ratio(math.sqrt(low * high), low, high, True, 9)
    assert ratio.call() == call
    opposite = {"slower": "faster", "faster": "slower"}.get(call, call)
    assert ratio.inverse().call() == opposite


def independent(rng: np.random.Generator, rounds: int) -> tuple[Blocks, Blocks]:
    """Lognormal processes and blocks."""
    return cell(rng, rng.normal(0, 0.02, rounds)), cell(rng, rng.normal(0, 0.02, rounds))


def drifting(rng: np.random.Generator, rounds: int) -> tuple[Blocks, Blocks]:
    """The machine gets slower by chance, 5 % from round to round, for both cells alike."""
    machine = np.cumsum(rng.normal(0.02, 0.05, rounds))
    own = rng.normal(0, 0.01, (2, rounds))
    return cell(rng, machine + own[0]), cell(rng, machine + own[1])


def bimodal(rng: np.random.Generator, rounds: int) -> tuple[Blocks, Blocks]:
    """A process in three of ten is 8 % slower throughout."""
    slow = 0.08 * (rng.random((2, rounds)) < 0.3) + rng.normal(0, 0.01, (2, rounds))
    return cell(rng, slow[0]), cell(rng, slow[1])


def cell(rng: np.random.Generator, levels: np.ndarray) -> Blocks:
    return {
        number: np.exp(level + rng.normal(0, 0.03, 5)).tolist()
        for number, level in enumerate(levels)
    }


@pytest.mark.parametrize("rounds", [6, 10, 20])
@pytest.mark.parametrize("draw", [independent, drifting, bimodal])
def test_paired_interval_covers_the_truth_in_95_percent(
    draw: Callable[[np.random.Generator, int], tuple[Blocks, Blocks]], rounds: int
) -> None:
    rng = np.random.default_rng(rounds)
    tries = 2500  # a standard error of 0.4 %
    covered = wrong = 0
    for _ in range(tries):
        found = paired_ratio(*draw(rng, rounds))
        assert found is not None
        assert found.low is not None
        assert found.high is not None
        covered += found.low <= 1 <= found.high
        wrong += found.call() in ("slower", "faster")
    assert 0.93 <= covered / tries <= 0.97
    assert wrong / tries <= 0.05


def test_pairing_sees_through_drift_that_blinds_the_unpaired() -> None:
    first, second = drifting(np.random.default_rng(1), 20)
    paired = paired_ratio(first, second)
    unpaired = unpaired_ratio(list(first.values()), list(second.values()))
    assert paired is not None
    assert unpaired is not None
    assert paired.half_width is not None
    assert unpaired.half_width is not None
    assert paired.half_width < unpaired.half_width / 3
