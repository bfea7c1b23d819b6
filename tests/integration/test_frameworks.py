"""Every framework, mode, layout and precision computes what the NumPy reference computes.

One small network holds every kind of layer except dropout, whose masks nobody shares.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from netdyno.frameworks import frameworks
from tests.small_network import small_network

pytestmark = pytest.mark.integration

# Relative L2 of float32 results of some ten layers, each of which rounds at 6e-8, after sums of up
# to some thousand terms: 1e-6 is what is seen, 2e-5 leaves room for another order of summation.
# In float64 the same rule gives 4e-14; MXNet holds the learning rate in float32, which bounds
# updated parameters at 1e-8.
TOLERANCES = {"fp32": 2e-5, "fp64": 1e-7}


def distance(found: np.ndarray, expected: np.ndarray) -> float:
    """Relative L2."""
    difference = np.linalg.norm(np.asarray(found, np.float64) - expected)
    return float(difference / np.linalg.norm(expected))


CELLS = [
    pytest.param(
        spec.name,
        mode.name,
        layout,
        precision,
        id="-".join((spec.name, mode.name, layout, precision)),
    )
    for spec in frameworks().values()
    if spec.name != "null"
    for mode in spec.modes.values()
    for layout in mode.layouts
    for precision in spec.precisions
    # A compiled mode takes tens of seconds: one precision of it is enough.
    if not (mode.first_iteration_seconds > 20 and precision == "fp64")
]


@pytest.mark.parametrize(("framework", "mode", "layout", "precision"), CELLS)
def test_computes_what_the_reference_computes(
    compute_cell: Callable[..., dict[str, np.ndarray]],
    framework: str,
    mode: str,
    layout: str,
    precision: str,
) -> None:
    # MXNet has LRN in single precision only, and says so: see the test below.
    # Activations are some hundredths here: an alpha that makes their squares count.
    network = small_network(lrn=(framework, precision) != ("mxnet", "fp64"), alpha=1e4)
    expected = compute_cell(network, "numpy", "plain", "fp64")
    found = compute_cell(network, framework, mode, precision, layout)
    assert found.keys() == expected.keys()
    far = {
        name: distance(found[name], expected[name])
        for name in expected
        if not distance(found[name], expected[name]) <= TOLERANCES[precision]
    }
    assert not far


def test_the_comparison_sees_a_wrong_constant(
    compute_cell: Callable[..., dict[str, np.ndarray]],
) -> None:
    right = compute_cell(small_network(k=2.0), "numpy", "plain", "fp64")
    wrong = compute_cell(small_network(k=1.0), "numpy", "plain", "fp64")
    assert distance(wrong["logits"], right["logits"]) > 100 * TOLERANCES["fp32"]


def test_mxnet_says_that_it_has_no_lrn_in_double_precision(
    compute_cell: Callable[..., dict[str, np.ndarray]],
) -> None:
    with pytest.raises(AssertionError, match="LRN in single precision only"):
        compute_cell(small_network(), "mxnet", "symbol", "fp64")
