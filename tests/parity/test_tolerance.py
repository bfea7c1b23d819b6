"""Bounds of few bits: wide enough for rounding, too narrow for what is wrong."""

from __future__ import annotations

import math

import numpy as np
import pytest

from netdyno.networks import build
from netdyno.networks.builder import Builder
from netdyno.parity.tolerance import OPERAND_ROUNDOFF, WORTHLESS, tolerance

NETWORKS = ("alexnet_owt", "googlenet", "vgg_a", "resnet50")
FEW_BITS = ("tf32", "fp16", "bf16")


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("precision", FEW_BITS)
def test_a_gradient_of_zero_is_refused_at_any_depth(name: str, precision: str) -> None:
    found = tolerance(build(name), precision, 2)
    assert found.gradient <= WORTHLESS < 1
    assert found.forward < 0.3


@pytest.mark.parametrize("name", NETWORKS)
def test_fewer_bits_allow_more(name: str) -> None:
    fp64, fp32, tf32, bf16 = (
        tolerance(build(name), precision, 2) for precision in ("fp64", "fp32", "tf32", "bf16")
    )
    assert fp64.forward < fp32.forward < tf32.forward < bf16.forward
    assert fp64.gradient < fp32.gradient < tf32.gradient <= bf16.gradient


def test_parameters_are_held_in_single_precision() -> None:
    network = build("conv_l5")
    single, few = tolerance(network, "fp32", 2), tolerance(network, "bf16", 2)
    assert few.update - few.gradient == pytest.approx(single.update - single.gradient)


@pytest.mark.parametrize("precision", FEW_BITS)
def test_sums_of_rounded_operands(precision: str) -> None:
    """Whatever their length, they are off by sqrt(2) u at most, and the bound is not far above."""
    unit = OPERAND_ROUNDOFF[precision]
    random = np.random.default_rng(1)
    net = Builder((1, 1, 1))
    net.flatten()
    net.dense("dense", 2)
    net.loss()
    bound = tolerance(net.network("one", options={}, source=""), precision, 2).forward
    for terms in (16, 256, 4096):
        a, b = random.normal(size=(2, 2000, terms))
        exact = (a * b).sum(axis=1)
        found = (_rounded(a, unit) * _rounded(b, unit)).sum(axis=1)
        off = np.linalg.norm(found - exact) / np.linalg.norm(exact)
        assert unit / 4 < off < math.sqrt(2) * unit < bound


@pytest.mark.parametrize("window", [4, 9])
def test_flips_of_max_pooling(window: int) -> None:
    """The share of windows in which another value comes first: of sums of rounded products, which
    are off by sqrt(2) u of their typical size, and are rounded themselves."""
    unit = OPERAND_ROUNDOFF["bf16"]
    values = np.random.default_rng(2).normal(size=(200_000, window))
    errors = math.sqrt(2) * unit * np.random.default_rng(3).normal(size=values.shape)
    noisy = _rounded(values + errors, unit)
    flipped = float((values.argmax(axis=1) != noisy.argmax(axis=1)).mean())
    allowed = 2 * math.log(window) * unit * math.sqrt(2)
    assert allowed / 8 < flipped < allowed


def _rounded(values: np.ndarray, unit: float) -> np.ndarray:  # type: ignore[type-arg]
    """To a fraction of so many bits, to nearest."""
    fraction, exponent = np.frexp(values)
    return np.ldexp(np.round(fraction / unit) * unit, exponent)
