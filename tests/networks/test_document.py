"""Networks as JSON: what is written is read again, and what is wrong is named."""

from __future__ import annotations

import json
from typing import Any

import pytest

from netdyno.errors import NetdynoError
from netdyno.networks import build, names
from netdyno.networks.document import network_from_json
from netdyno.networks.graph import LRN, Conv, Dense, Flatten, Pool, SoftmaxCrossEntropy

VARIANTS = ["googlenet:lrn:aux_heads:dropout", "resnet50:stride_in=1x1:size=96:classes=10"]


@pytest.mark.parametrize("spec", [*names(), *VARIANTS])
def test_every_network_comes_back(spec: str) -> None:
    network = build(spec)
    read = network_from_json(json.loads(json.dumps(network.to_json())))
    assert read == network
    assert read.hash == network.hash
    assert read.to_json() == network.to_json()


def written(**changes: Any) -> dict[str, Any]:
    """As a person would write it: nothing derived, defaults left out."""
    return {
        "schema": 1,
        "name": "mine",
        "input_shape": [3, 8, 8],
        "layers": [
            {"kind": "Conv", "name": "c", "inputs": ["images"], "filters": 4, "kernel": [3, 1]},
            {"kind": "LRN", "name": "n", "inputs": ["c"], "k": 2},
            {
                "kind": "Pool",
                "name": "p",
                "inputs": ["n"],
                "reduction": "max",
                "kernel": [2, 2],
                "stride": [2, 2],
                "ceil_mode": True,
            },
            {"kind": "Flatten", "name": "f", "inputs": ["p"]},
            {"kind": "Dense", "name": "d", "inputs": ["f"], "units": 10},
            {"kind": "SoftmaxCrossEntropy", "name": "loss", "inputs": ["d"]},
        ],
        **changes,
    }


def test_what_is_left_out_has_its_default() -> None:
    network = network_from_json(written())
    assert network.layers == (
        Conv("c", ("images",), 4, (3, 1)),
        LRN("n", ("c",), k=2.0),
        Pool("p", ("n",), "max", (2, 2), (2, 2), ceil_mode=True),
        Flatten("f", ("p",)),
        Dense("d", ("f",), 10),
        SoftmaxCrossEntropy("loss", ("d",)),
    )
    # A whole number where the graph has a float is another text, and must not be another hash.
    assert isinstance(network.layers[1].k, float)  # type: ignore[attr-defined]
    assert network_from_json(written(hash=network.hash)) == network


def layer(**changes: Any) -> dict[str, Any]:
    """The whole document, with its convolution changed; None removes a key."""
    document = written()
    changed = {**document["layers"][0], **changes}
    document["layers"][0] = {key: value for key, value in changed.items() if value is not None}
    return document


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], "is no neutral network"),
        ({"cells": []}, "is no neutral network: it needs schema, name, input_shape and layers"),
        (written(schema=2), "has schema 2, this netdyno reads up to 1: update netdyno"),
        (written(schema="1"), "schema must be a whole number, not '1'"),
        (written(schema=True), "schema must be a whole number"),
        (written(name=None), "name must be a text, not None"),
        (written(colour="red"), "unknown key 'colour'"),
        (written(hash="000000000000"), "says hash '000000000000', but its layers have"),
        (written(input_shape=[3, 8]), "input_shape must be a list of 3 whole numbers, not"),
        (written(input_shape=[3, 8, 0]), "input_shape must be positive"),
        (written(input_shape=[3, 8, 8.5]), "input_shape must be a whole number, not 8.5"),
        (written(options=["lrn"]), "options must be an object"),
        (written(layers={}), "layers must be a list"),
        (written(layers=[]), "has no SoftmaxCrossEntropy layer"),
        (written(layers=["conv"]), "layer 0 must be an object, not 'conv'"),
        (layer(kind=None), "layer 0 ('c') has no kind; known: Add, BatchNorm"),
        (layer(kind="Conf"), "layer 0 ('c'): unknown kind of layer 'Conf'; did you mean Conv?"),
        (layer(name=None), "layer 0: name is missing"),
        (layer(name=""), "layer 0 (''): its name is empty"),
        (layer(name="a\x1b"), "its name is empty or has control characters"),
        (layer(filters=None), "layer 0 ('c'): filters is missing"),
        (layer(filters="4"), "filters must be a whole number, not '4'"),
        (layer(filters=True), "filters must be a whole number, not True"),
        (layer(filters=0), "Conv 'c': filters must be 1 or more, not 0"),
        (layer(kernel=3), "kernel must be a list of 2 whole numbers, not 3"),
        (layer(kernel=[0, 1]), "kernel must be 1 or more"),
        (layer(padding=[-1, 0]), "padding must be 0 or more"),
        (layer(bias=1), "bias must be true or false, not 1"),
        (layer(colour="red"), "unknown setting of Conv 'colour'"),
        (layer(inputs="images"), "inputs must be a list, not 'images'"),
        (layer(inputs=[1]), "inputs must be a text, not 1"),
        (layer(inputs=[]), "reads 0 layers, which Conv cannot"),
        (layer(inputs=["images", "images"]), "reads 2 layers, which Conv cannot"),
        (layer(inputs=["nothing"]), "layer 'c' reads 'nothing', which does not come before it"),
        (layer(kernel=[9, 9]), "a window of 9 does not fit"),
    ],
)
def test_what_is_wrong_is_named(document: Any, message: str) -> None:
    with pytest.raises(NetdynoError) as error:
        network_from_json(document)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("index", "changes", "message"),
    [
        (1, {"alpha": float("nan")}, "LRN 'n': alpha must be finite, not nan"),
        (1, {"beta": "0.75"}, "beta must be a number, not '0.75'"),
        (2, {"reduction": "mean"}, "reduction must be max or average, not 'mean'"),
        (2, {"padding": [2, 0]}, "Pool 'p': padding must be smaller than the kernel"),
        (2, {"stride": [0, 1]}, "stride must be 1 or more"),
        (4, {"kind": "Dropout", "units": 3}, "unknown setting of Dropout 'units'"),
        (3, {"kind": "Dropout", "rate": 1.0}, "rate must be from 0 to below 1, not 1.0"),
        (3, {"kind": "BatchNorm", "eps": 0.0}, "eps must be positive, not 0.0"),
        (3, {"kind": "BatchNorm", "momentum": 1.5}, "momentum must be from 0 to 1, not 1.5"),
    ],
)
def test_settings_that_make_no_sense(index: int, changes: dict[str, Any], message: str) -> None:
    document = written()
    document["layers"][index].update(changes)
    with pytest.raises(NetdynoError) as error:
        network_from_json(document)
    assert message in str(error.value)
