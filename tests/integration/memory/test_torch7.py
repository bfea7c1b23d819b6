"""Torch7's tensors beside the growth of its process. Set NETDYNO_TORCH7 to run these."""

from __future__ import annotations

from pathlib import Path

import pytest

from netdyno.networks import Network
from netdyno.networks.builder import Builder
from tests.integration.memory.trials import PHASES, memory_of
from tests.small_network import small_network

pytestmark = pytest.mark.integration

FLOAT_BYTES = 4


def counted() -> Network:
    """The first convolution is read four times.

    The gradients that the two additions hand on are the same tensors as those of what they put
    out: their sum is a tensor of its own, and the convolutions' gradients go into that.
    """
    net = Builder((3, 8, 8))
    trunk = net.conv("c", 4, 3, padding=1)  # 4x8x8 = 256
    left = net.conv("a", 4, 1)
    right = net.conv("b", 4, 1, reads=trunk)
    # In the memory of a and b.
    sums = [net.add_together("a_sum", [left, trunk]), net.add_together("b_sum", [right, trunk])]
    net.concat("all", sums)
    net.pool("p", "max", 2, 2)  # 8x4x4 = 128
    net.flatten()
    net.dense("d", 5)
    net.loss()
    return net.network("counted", options={}, source="")


def test_bytes_counted_by_hand(tmp_path: Path) -> None:
    found = memory_of(tmp_path, "torch7", "eager", counted(), 2, observe=False)
    # Of one image, in numbers. Convolutions unfold their input, 1x1 too, and the whole batch.
    unfolded = {"c": 3 * 9 * 64, "a": 256, "b": 256}
    outputs = {"c": 256, "a": 256, "b": 256, "all": 512, "p": 128}
    winners = 2 * 128  # 8 bytes each
    log_softmax = 5
    # For two images: a vector of ones; the loss and the sum of its weights.
    single = 2 + 2
    forward = 2 * sum([*unfolded.values(), *outputs.values(), winners, log_softmax]) + single
    # By what each reads; concat has one for each input, and nobody wants those of the images.
    gradients = {"a": 256, "b": 256, "all": 256 + 256, "p": 512, "d": 128}
    of_the_loss = 5 + 5
    total = 256
    unfolded_gradients = unfolded["a"] + unfolded["b"]
    backward = 2 * sum([*gradients.values(), of_the_loss, total, unfolded_gradients])
    assert found["forward"]["internal_bytes"] == FLOAT_BYTES * forward
    for phase in ("forward_backward", "train_step"):
        assert found[phase]["internal_bytes"] == FLOAT_BYTES * (forward + backward)
    assert "sums" not in found["forward"]["remark"]
    assert "sums" in found["train_step"]["remark"]


def large() -> Network:
    net = Builder((3, 96, 96))
    trunk = net.conv("c1", 32, 5, padding=2)
    net.relu()
    net.lrn("norm")
    left = net.conv("a", 32, 3, padding=1)
    right = net.conv("b", 32, 3, padding=1, reads=trunk)
    net.add_together("sum", [left, right])
    net.pool("p", "max", 3, 2)
    net.dropout(0.5)
    net.flatten()
    net.dense("d", 10)
    net.loss()
    return net.network("large", options={}, source="")


def test_the_process_grows_by_what_its_tensors_hold(tmp_path: Path) -> None:
    found = memory_of(tmp_path, "torch7", "eager", large(), 8, observe=False)
    for phase in PHASES:
        event = found[phase]
        assert event["observed_problem"] == ""
        assert event["internal_bytes"] > 50e6
        assert event["observed_bytes"] == pytest.approx(event["internal_bytes"], rel=0.05)
        assert abs(event["observed_kept_bytes"]) < 0.05 * event["internal_bytes"]
    assert found["forward"]["observed_bytes"] < 0.8 * found["forward_backward"]["observed_bytes"]


def test_every_kind_of_layer_begins_anew_in_every_phase(tmp_path: Path) -> None:
    """What one phase leaves is not counted in the next."""
    small = memory_of(tmp_path, "torch7", "eager", small_network(), 4, observe=False)
    larger = memory_of(tmp_path, "torch7", "eager", small_network(), 8, observe=False)
    for found in (small, larger):
        by_phase = [found[phase]["internal_bytes"] for phase in PHASES]
        assert by_phase[0] < 0.7 * by_phase[1]
        assert by_phase[1] == by_phase[2]
    # LRN goes image by image, and so has some that do not grow with the batch.
    for phase in PHASES:
        ratio = larger[phase]["internal_bytes"] / small[phase]["internal_bytes"]
        assert 1.9 < ratio <= 2
