"""What the controller wrote is what the worker reads, for every kind of layer."""

from __future__ import annotations

import dataclasses
import json

import pytest

from netdyno.networks import Network, build, names
from netdyno.networks.graph import KINDS
from netdyno_worker.network import INPUT, Layer
from netdyno_worker.network import Network as WorkerNetwork


def sent(network: Network) -> WorkerNetwork:
    return WorkerNetwork(json.loads(json.dumps(network.to_json(), allow_nan=False)))


def test_the_tiny_network_has_every_kind(tiny_network: Network) -> None:
    assert {layer.kind for layer in tiny_network.layers} == set(KINDS)


def test_every_field_of_every_kind_arrives(tiny_network: Network, tiny: WorkerNetwork) -> None:
    assert [layer.name for layer in tiny.layers] == [layer.name for layer in tiny_network.layers]
    for ours, theirs in zip(tiny_network.layers, tiny.layers, strict=True):
        assert theirs.kind == type(ours).__name__
        for field in dataclasses.fields(ours):
            assert getattr(theirs, field.name) == getattr(ours, field.name), field.name
        assert theirs.output_shape == tiny_network.shapes[ours.name]


@pytest.mark.parametrize("name", names())
def test_shapes_arrive(name: str) -> None:
    ours = build(name)
    theirs = sent(ours)
    assert theirs.parameter_shapes() == ours.parameter_shapes
    assert list(theirs.parameter_shapes()) == list(ours.parameter_shapes)
    assert theirs.input_shape == ours.input_shape
    assert (theirs.classes, theirs.output) == (ours.classes, ours.output)
    for key, shape in ours.shapes.items():
        assert theirs.shape(key) == shape


def test_who_reads_what(tiny: WorkerNetwork) -> None:
    readers = tiny.readers()
    assert readers[INPUT] == 1
    assert readers["added"] == 2
    assert "loss" not in readers
    assert [layer.name for layer in tiny.batch_norms()] == ["conv1_bn"]


def test_a_field_that_a_kind_lacks_is_named(tiny: WorkerNetwork) -> None:
    relu = next(layer for layer in tiny.layers if layer.kind == "ReLU")
    with pytest.raises(AttributeError, match="ReLU layer has no 'kernel'"):
        _ = relu.kernel
    assert isinstance(relu, Layer)
