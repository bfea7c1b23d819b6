"""The reference and the frameworks hold each other: single layers of random geometry."""

from __future__ import annotations

import dataclasses
import re

import pytest

from netdyno.frameworks import framework
from netdyno.networks.builder import Builder
from netdyno.parity.verify import Verification, Verifier, checks_of
from tests.integration.conftest import cell, environment_of
from tests.small_network import small_network

pytestmark = pytest.mark.integration


def layers(verifier: Verifier, name: str, mode: str) -> Verification:
    environment = environment_of(name)
    return verifier.verify_layers(cell(name, mode, small_network()), environment)


def test_pytorch_in_double_precision_agrees_with_the_reference_layer_by_layer(
    verifier: Verifier,
) -> None:
    """An implementation that shares nothing with ours, at 1e-13."""
    found = layers(verifier, "pytorch", "eager")
    strict = [check for check in found.checks if check.precision == "fp64"]
    assert len(strict) == 9
    assert {check.status for check in strict} == {"passed"}
    assert all((tensor.relative_l2 or 0) < 1e-12 for check in strict for tensor in check.tensors)


def test_the_known_bug_of_mxnet_is_found_and_named(verifier: Verifier) -> None:
    found = layers(verifier, "mxnet", "symbol")
    by_status: dict[str, set[tuple[str, str]]] = {}
    for check in found.checks:
        by_status.setdefault(check.status, set()).add((check.name, check.precision))
    # oneDNN has single precision only: MXNet's own code, in double, is right.
    assert by_status["known bug"] == {("random average pools that round up", "fp32")}
    assert ("random average pools that round up", "fp64") in by_status["passed"]
    assert not by_status.keys() & {"failed", "crashed"}
    assert found.passed


def test_a_network_with_that_layer_is_refused(verifier: Verifier) -> None:
    net = Builder((3, 16, 16))
    net.conv("c", 16, 3)
    net.pool("p", "average", 3, 2, ceil_mode=True)
    net.flatten()
    net.dense("d", 10)
    net.loss()
    network = net.network("ragged", options={}, source="")
    found = verifier.verify(cell("mxnet", "symbol", network), environment_of("mxnet"))
    assert not found.passed
    assert re.search(r"Pool reduction=average .*ceil_mode=True", found.reason)
    assert "the backward pass, at Conv 'c'" in found.reason


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        ("mxnet", "symbol"),
        ("mxnet", "hybrid"),
        ("tensorflow", "graph"),
        ("tensorflow", "xla"),
        ("pytorch", "eager"),
        ("jax", "jit"),
        ("caffe", "net"),
    ],
)
def test_the_gradient_by_the_images(verifier: Verifier, name: str, mode: str) -> None:
    # MXNet's LRN is in single precision only, and the wheel of Caffe has no batch norm.
    network = small_network(lrn=name != "mxnet", batch_norm=name != "caffe")
    (check,) = [c for c in checks_of(network) if c.name == network.name]
    asked = dataclasses.replace(check, name="with images", train_steps=0, input_gradient=True)
    for layout in framework(name).modes[mode].layouts:
        found = verifier.run(cell(name, mode, network, layout), environment_of(name), [asked])
        assert [result.status for result in found] == ["passed"] * len(found)
        for result in found:
            assert "gradient/images" in {tensor.name for tensor in result.tensors}
