"""The first layer that differs is named, by a forward pass or by a backward pass that is wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from netdyno.networks import Network, build
from netdyno.networks.graph import Dropout, Flatten, SoftmaxCrossEntropy
from netdyno.parity.compare import compare
from netdyno.parity.conditions import BATCH_SIZE, NETWORK_IMAGE_SCALE
from netdyno.parity.locate import first_difference, probed
from netdyno.parity.subject import Check
from netdyno.parity.tolerance import tolerance
from netdyno_worker.frameworks.numpy import operations
from netdyno_worker.frameworks.numpy.adapter import Adapter
from tests.parity.conftest import compute_here, reference
from tests.parity.test_mutants import changed, without_relu
from tests.small_network import small_network


def located(
    precision: str, adapter: type[Adapter] = Adapter, computes: Network | None = None
) -> str:
    right, wrong = (probed(network) for network in (small_network(), computes or small_network()))
    asked = Check(right.name, right, BATCH_SIZE, NETWORK_IMAGE_SCALE, 0)
    found = compute_here(
        Check(right.name, wrong, BATCH_SIZE, NETWORK_IMAGE_SCALE, 0), precision, adapter
    )
    bounds = tolerance(small_network(), precision, BATCH_SIZE)
    return first_difference(
        small_network(), compare(right, found, reference(asked), bounds), bounds
    )


@pytest.mark.parametrize("precision", ["fp32", "fp64"])
def test_nothing_differs_in_the_reference(precision: str) -> None:
    assert located(precision) == ""


WRONG = {
    "LRN 'norm'": changed("LRN", k=1.0),
    "Pool 'p1'": small_network(ceil_mode=False),
    "Pool 'b/pool'": changed("Pool", "b/pool", count_padding=False),
    "Pool 'p2'": changed("Pool", "p2", reduction="max"),
    "BatchNorm 'b/1_bn'": changed("BatchNorm", eps=1e-3),
    "ReLU 'a_relu'": without_relu("a_relu"),
}


@pytest.mark.parametrize("precision", ["fp32", "fp64"])
@pytest.mark.parametrize("layer", WRONG)
def test_the_first_layer_whose_output_differs(layer: str, precision: str) -> None:
    assert located(precision, computes=WRONG[layer]) == layer


@pytest.mark.parametrize(
    ("kind", "at"),
    [("LRN", "Conv 'c1'"), ("BatchNorm", "BatchNorm 'b/1_bn'"), ("Dense", "Dense 'd3")],
)
def test_where_a_backward_pass_differs(monkeypatch: pytest.MonkeyPatch, kind: str, at: str) -> None:
    right = operations.BACKWARD[kind]

    def wrong(layer: Any, gradient: np.ndarray, *saved: Any) -> Any:
        by_inputs, own = right(layer, gradient, *saved)
        if "probe" in layer.name:
            return by_inputs, own
        return [1.5 * g for g in by_inputs], {k: 1.5 * g for k, g in own.items()}

    class Wrong(Adapter):
        def forward_backward(self) -> None:
            with monkeypatch.context() as patch:
                patch.setitem(operations.BACKWARD, kind, wrong)
                super().forward_backward()

    assert located("fp64", Wrong).startswith(f"the backward pass, at {at}")


def test_every_layer_is_seen_but_those_that_only_pass_on() -> None:
    network = build("googlenet:dropout=on:size=128")
    heads = {loss.inputs[0] for loss in probed(network).losses}
    for layer in network.layers:
        passes_on = isinstance(layer, Flatten | Dropout | SoftmaxCrossEntropy)
        assert (f"{layer.name} probe" in heads) is not passes_on


def test_nothing_is_left_that_nobody_reads() -> None:
    """The single convolutions end in a Flatten that only the loss reads."""
    network = probed(build("conv_l1"))
    read = {name for layer in network.layers for name in layer.inputs}
    for layer in network.layers:
        assert layer.name in read or isinstance(layer, SoftmaxCrossEntropy)
