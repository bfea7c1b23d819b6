"""PyTorch's account of its blocks beside what its allocations show, and beside sums by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from netdyno.memory import lower_bound
from netdyno.networks import Network
from netdyno.networks.builder import Builder
from tests.integration.memory.trials import PHASES, memory_of

pytestmark = pytest.mark.integration

BATCH_SIZE = 64
UNITS = (16384, 8192)


def convolutions() -> Network:
    """The dense layer is too small for MKL to take more than a trace, which memray sees alone."""
    net = Builder((8, 32, 32))
    net.conv("c1", 16, 3, padding=1)
    net.relu()
    net.pool("p1", "max", 2, 2)
    net.conv("c2", 32, 3, padding=1)
    net.relu()
    net.pool("p2", "average", 16, 1)
    net.flatten()
    net.dense("d", 10)
    net.loss()
    return net.network("convolutions", options={}, source="")


def dense() -> Network:
    """Two large arrays an image and nothing else to speak of."""
    net = Builder((4, 2, 2))
    net.flatten()
    for units in UNITS:
        net.dense(f"d{units}", units)
        net.relu()
    net.dense("d", 10)
    net.loss()
    return net.network("dense", options={}, source="")


@pytest.mark.parametrize("mode", ["eager", "compile"])
def test_both_figures_agree(tmp_path: Path, mode: str) -> None:
    sizes = (BATCH_SIZE, 2 * BATCH_SIZE) if mode == "eager" else (BATCH_SIZE,)
    found = {size: memory_of(tmp_path, "pytorch", mode, convolutions(), size) for size in sizes}
    for size, events in found.items():
        for phase in PHASES:
            event = events[phase]
            told = event["internal_bytes"]
            assert event["observed_problem"] == ""
            assert event["kind"] == "allocator peak"
            seen = event["observed_bytes"]
            assert 0.99 * told < seen < 1.1 * told, (size, phase)
        forward, backward, step = (events[phase]["internal_bytes"] for phase in PHASES)
        # A max pooling that keeps positions may need less than the bound, but not by this much.
        assert backward > 0.8 * lower_bound(convolutions(), batch_size=size, training=True)
        assert forward < backward
        assert step == pytest.approx(backward, rel=0.02)
    for phase in PHASES if len(sizes) > 1 else ():
        small, large = (found[size][phase]["internal_bytes"] for size in sizes)
        assert large == pytest.approx(2 * small, rel=0.05)


def test_the_arrays_of_dense_layers_are_counted_by_hand(tmp_path: Path) -> None:
    size = 64
    events = memory_of(tmp_path, "pytorch", "eager", dense(), size, observe=False)
    first, second = (4 * size * units for units in UNITS)
    # Nothing is kept: a layer's output, over which its ReLU writes, and the next one's.
    assert events["forward"]["internal_bytes"] == pytest.approx(first + second, rel=0.01)
    # Both outputs are kept. Worst in the backward pass of the first ReLU, which writes a gradient
    # beside the one that it reads, when the second layer's arrays are gone.
    assert events["forward_backward"]["internal_bytes"] == pytest.approx(3 * first, rel=0.01)
