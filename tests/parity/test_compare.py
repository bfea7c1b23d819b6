"""Distances, and what counts as a difference when none can be taken."""

from __future__ import annotations

import numpy as np
import pytest

from netdyno.networks import build
from netdyno.parity.compare import compare
from netdyno.parity.tolerance import Tolerance, tolerance
from tests.small_network import small_network

NETWORK = small_network()
BOUNDS = Tolerance(forward=1e-3, running=2e-3, gradient=1e-2, update=1e-1)


def results(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> dict[str, object]:
    return {r.name: r for r in compare(NETWORK, found, expected, BOUNDS)}


def test_relative_l2_and_the_worst_element() -> None:
    expected = np.array([[3.0, 0.0], [0.0, 4.0]])
    found = expected + np.array([[0.0, 0.03], [0.04, 0.0]])
    (result,) = compare(NETWORK, {"logits": found}, {"logits": expected}, BOUNDS)
    assert result.relative_l2 == pytest.approx(0.05 / 5)
    assert result.worst_index == (1, 0)
    assert (result.worst_found, result.worst_expected) == pytest.approx((0.04, 0.0))
    assert not result.passed


@pytest.mark.parametrize(
    ("name", "allowed"),
    [
        ("loss", 1e-3),
        ("running/c1_bn.running_mean", 2e-3),
        ("gradient/c1.weight", 1e-2),
        ("update/c1.weight", 1e-1),
        ("losses", 1e-1),
    ],
)
def test_each_group_has_its_bound(name: str, allowed: float) -> None:
    just, over = np.array([1 + 0.9 * allowed]), np.array([1 + 1.1 * allowed])
    (good,) = compare(NETWORK, {name: just}, {name: np.ones(1)}, BOUNDS)
    (bad,) = compare(NETWORK, {name: over}, {name: np.ones(1)}, BOUNDS)
    assert (good.passed, bad.passed) == (True, False)
    assert bad.bound == allowed


@pytest.mark.parametrize(
    ("found", "problem"),
    [
        (np.ones(3), "has shape (3,), should be (2,)"),
        (np.array([1.0, np.nan]), "not finite"),
        (np.array([1.0, np.inf]), "not finite"),
    ],
)
def test_no_distance_is_no_pass(found: np.ndarray, problem: str) -> None:
    (result,) = compare(NETWORK, {"logits": found}, {"logits": np.ones(2)}, BOUNDS)
    assert not result.passed
    assert problem in result.problem


def test_a_tensor_that_one_side_lacks() -> None:
    missing, extra = "gradient/c1.bias", "gradient/z.bias"
    by_name = {
        r.name: r for r in compare(NETWORK, {extra: np.ones(1)}, {missing: np.ones(1)}, BOUNDS)
    }
    assert by_name[missing].problem == "is not computed"
    assert by_name[extra].problem == "is not known to the reference"
    assert not any(result.passed for result in by_name.values())


def test_what_should_be_zero_is_held_to_an_absolute_bound() -> None:
    zero = {"gradient/c1.bias": np.zeros(2)}
    (same,) = compare(NETWORK, zero, zero, BOUNDS)
    (off,) = compare(NETWORK, {"gradient/c1.bias": np.array([0, 0.02])}, zero, BOUNDS)
    assert (same.passed, off.passed) == (True, False)


def test_results_come_in_the_order_of_the_layers() -> None:
    names = ["update/c1.weight", "gradient/d3.weight", "gradient/c1.weight", "logits", "loss"]
    arrays = {name: np.ones(1) for name in names}
    assert [r.name for r in compare(NETWORK, arrays, arrays, BOUNDS)] == [
        "loss",
        "logits",
        "gradient/c1.weight",
        "gradient/d3.weight",
        "update/c1.weight",
    ]


def test_bounds_follow_precision_and_ties_are_for_single_precision_only() -> None:
    single, double = (tolerance(NETWORK, precision, 2) for precision in ("fp32", "fp64"))
    assert single.forward == pytest.approx(double.forward * 2**29)
    assert single.gradient - single.forward == pytest.approx(2e-2)
    assert double.gradient == double.forward < 1e-12


def test_bounds_by_hand() -> None:
    """16 u sqrt(K) L: the dense head reads 32 values, the longest sum is over c1's outputs."""
    # c1 gives 17 x 16 positions, two images; d1 has 32 x 180 weights, a bias of batch terms.
    # The longest path has c1, LRN, b/1, batch norm (or b/2), d1 and d2.
    expected = 16 * 2.0**-53 * (2 * 17 * 16) ** 0.5 * 6
    assert tolerance(NETWORK, "fp64", 2).forward == pytest.approx(expected, rel=1e-9, abs=0)


def test_what_flips_may_do_by_hand() -> None:
    """2e-2 for a few; in a deep network the root of ReLUs and max pools times a value's error."""
    small = tolerance(NETWORK, "fp32", 2)
    assert small.gradient - small.forward == pytest.approx(2e-2)
    deep = tolerance(build("resnet50"), "fp32", 2)
    # 49 ReLUs and a max pool in a row; 50 convolutions and dense layers; the longest sum is over
    # the positions of conv1 in two images.
    error = 2.0**-24 * (2 * 112 * 112 * 50) ** 0.5
    assert deep.gradient - deep.forward == pytest.approx((error * 50) ** 0.5)
