"""Caffe's blobs beside what its allocations show, and what is between the two."""

from __future__ import annotations

from math import prod
from pathlib import Path

import pytest

from netdyno.memory import plan
from netdyno.networks import Network, build
from netdyno.networks.builder import Builder
from netdyno.networks.graph import LRN, Conv, Dropout, Pool, SoftmaxCrossEntropy
from tests.integration.memory.trials import PHASES, memory_of

pytestmark = pytest.mark.integration

BATCH_SIZE = 16
FLOAT_BYTES = 4
# A net itself: its layers, and their settings as protobuf messages.
NET_BYTES = 100_000


def network() -> Network:
    """Every kind of layer that keeps something for itself."""
    net = Builder((3, 64, 64))
    net.conv("c1", 32, 5, padding=2)
    net.relu()
    net.lrn("norm")
    net.pool("p1", "max", 3, 2)
    net.conv("c2", 32, 1)
    net.relu()
    net.conv("c3", 64, 3, padding=1)
    net.relu()
    net.dropout(0.5)
    net.pool("p2", "average", 3, 2)
    net.flatten()
    net.dense("d", 10)
    net.loss()
    return net.network("kept", options={}, source="")


def hidden_bytes(network: Network, phase: str) -> int:
    """What layers keep, from Caffe's source: src/caffe/layers of BVLC/caffe.

    base_conv_layer.cpp: ``col_buffer_``, one image unfolded, which a 1x1 convolution does not use
    but takes in its backward pass; ``bias_multiplier_``, of ones. pooling_layer.cpp: ``max_idx_``.
    lrn_layer.cpp: ``scale_``. dropout_layer.cpp: ``rand_vec_``. softmax_loss_layer.cpp: ``prob_``.
    """
    total = 0
    for layer in network.layers:
        (channels, *_), out = network.shapes[layer.inputs[0]], network.shapes[layer.name]
        if isinstance(layer, Conv):
            total += prod(out[1:])
            if layer.kernel != (1, 1) or phase != "forward":
                total += channels * prod(layer.kernel) * prod(out[1:])
        elif (isinstance(layer, Pool) and layer.reduction == "max") or isinstance(
            layer, LRN | Dropout
        ):
            total += BATCH_SIZE * prod(out)
        elif isinstance(layer, SoftmaxCrossEntropy):
            total += BATCH_SIZE * network.classes
    return FLOAT_BYTES * total


def test_what_blobs_do_not_show_are_arrays_that_its_layers_keep(tmp_path: Path) -> None:
    found = memory_of(tmp_path, "caffe", "net", network(), BATCH_SIZE)
    for phase in PHASES:
        event = found[phase]
        assert event["kind"] == "blobs"
        hidden = hidden_bytes(network(), phase)
        between = event["observed_bytes"] - event["internal_bytes"]
        assert hidden <= between <= hidden + NET_BYTES, phase
        assert event["observed_kept_bytes"] < NET_BYTES
    assert hidden_bytes(network(), "forward") > 0.1 * found["forward"]["internal_bytes"]


def test_the_bytes_of_its_blobs(tmp_path: Path) -> None:
    net = Builder((3, 6, 6))
    conv = net.conv("c", 4, 3)  # 4x4x4
    rectified = net.relu()  # another blob: two layers read the convolution
    net.add_together("sum", [conv, rectified])
    net.pool("p", "max", 2, 2)  # 4x2x2
    net.flatten()  # in the memory of the pool
    net.dense("d", 5)
    net.relu()  # in place
    net.dense("e", 10)
    net.loss()
    counted = net.network("bytes", options={}, source="")
    found = memory_of(tmp_path, "caffe", "net", counted, 2, observe=False)
    # Of two images. The logits are an output; the loss has one gradient, the images' is not asked
    # for and there all the same, and each reader of the convolution has one of its own.
    data = 2 * FLOAT_BYTES * (3 * 64 + 16 + 5)
    diff = 2 * FLOAT_BYTES * (5 * 64 + 16 + 5 + 10 + 3 * 36) + FLOAT_BYTES
    assert found["forward"]["internal_bytes"] == data
    assert found["forward_backward"]["internal_bytes"] == data + diff
    assert found["train_step"]["internal_bytes"] == data + diff


def test_blobs_are_what_the_planner_plans_in_place(tmp_path: Path) -> None:
    network = build("alexnet_owt")
    found = memory_of(tmp_path, "caffe", "net", network, 2, observe=False)
    planned = {
        training: plan(network, batch_size=2, training=training, strategy="inplace").internal_bytes
        for training in (False, True)
    }
    # The softmax is no blob, but the planner has its gradient in its place. Only Caffe has
    # gradients of the images and of the loss.
    softmax = 2 * network.classes * FLOAT_BYTES
    more = 2 * prod(network.input_shape) * FLOAT_BYTES + FLOAT_BYTES
    assert found["forward"]["internal_bytes"] == planned[False] - softmax
    assert found["forward_backward"]["internal_bytes"] == planned[True] + more


def test_a_larger_batch_needs_more_and_a_backward_pass_too(tmp_path: Path) -> None:
    small = memory_of(tmp_path, "caffe", "net", network(), 4)
    large = memory_of(tmp_path, "caffe", "net", network(), 8)
    for phase in PHASES:
        assert large[phase]["internal_bytes"] == pytest.approx(
            2 * small[phase]["internal_bytes"], rel=1e-4
        )
        assert large[phase]["observed_bytes"] > 1.5 * small[phase]["observed_bytes"]
    for figure in ("internal_bytes", "observed_bytes"):
        assert small["forward"][figure] < 0.7 * small["forward_backward"][figure]
