"""MXNet's count of its storage beside what its allocations show, and beside its plan."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from netdyno.memory import MXNET_1_9, plan
from netdyno.networks import Network
from netdyno.networks.builder import Builder
from tests.integration.memory.trials import PHASES, memory_of

pytestmark = pytest.mark.integration

MODES = ("symbol", "hybrid")
BATCH_SIZE = 64
# What oneDNN takes for itself whatever the batch: the weight of the dense layer laid out anew, its
# ten rows padded to 96.
ONEDNN_BYTES = int(1.1 * 96 * 32 * 16 * 16 * 4)


def convolutions() -> Network:
    """Temporary space as large as the plan: each gradient is laid out anew."""
    net = Builder((8, 32, 32))
    net.conv("c1", 16, 3, padding=1)
    net.relu()
    net.pool("p1", "max", 2, 2)
    net.conv("c2", 32, 3, padding=1)
    net.relu()
    net.flatten()
    net.dense("d", 10)
    net.loss()
    return net.network("convolutions", options={}, source="")


def dense() -> Network:
    """Nothing that a forward pass would need temporary space for."""
    net = Builder((16, 8, 8))
    net.flatten()
    for units in (2048, 1024):
        net.dense(f"d{units}", units)
        net.relu()
    net.dense("d", 10)
    net.loss()
    return net.network("dense", options={}, source="")


def planned_bytes(network: Network, batch_size: int, phase: str) -> int:
    return plan(
        network,
        batch_size=batch_size,
        training=phase != "forward",
        strategy="both",
        rules=MXNET_1_9,
    ).internal_bytes


@pytest.mark.parametrize("mode", MODES)
def test_both_figures_agree(tmp_path: Path, mode: str) -> None:
    found = {
        size: memory_of(tmp_path, "mxnet", mode, convolutions(), size)
        for size in (BATCH_SIZE, 2 * BATCH_SIZE)
    }
    for size, events in found.items():
        for phase in PHASES:
            told, seen = _both(events[phase])
            assert events[phase]["kind"] == "allocator peak"
            assert told <= seen <= 1.02 * told + ONEDNN_BYTES, (size, phase)
            assert told > planned_bytes(convolutions(), size, phase)  # and temporary space
        forward, backward, step = (events[phase]["internal_bytes"] for phase in PHASES)
        assert 2 * forward < backward
        assert step == pytest.approx(backward, rel=0.001)
    for phase in PHASES:
        small, large = (found[size][phase]["internal_bytes"] for size in found)
        assert large == pytest.approx(2 * small, rel=0.05)


@pytest.mark.parametrize("mode", MODES)
def test_a_forward_pass_without_temporary_space_is_the_plan_and_counted_by_hand(
    tmp_path: Path, mode: str
) -> None:
    size = 256
    event = memory_of(tmp_path, "mxnet", mode, dense(), size)["forward"]
    told, seen = _both(event)
    # Each ReLU works in place, the third layer writes the logits: an output.
    assert event["observed_largest"][:2] == [size * 2048 * 4, size * 1024 * 4]
    assert told == pytest.approx(planned_bytes(dense(), size, "forward"), rel=0.01)
    assert seen == pytest.approx(told, rel=0.05)


def _both(event: dict[str, Any]) -> tuple[int, int]:
    assert event["observed_problem"] == ""
    return event["internal_bytes"], event["observed_bytes"]
