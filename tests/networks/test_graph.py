"""Shapes, identity and errors of the graph."""

from __future__ import annotations

import dataclasses
import json

import pytest

from netdyno.errors import NetdynoError
from netdyno.networks import build
from netdyno.networks.builder import Builder
from netdyno.networks.graph import Conv, Dense, Network, Pool, ShapeError, SoftmaxCrossEntropy


@pytest.mark.parametrize(
    ("size", "kernel", "stride", "padding", "floor", "ceil"),
    [
        (7, 3, 2, 0, 3, 3),  # 0-2, 2-4, 4-6: nothing is left over
        (8, 3, 2, 0, 3, 4),  # a fourth window has 6 and 7 only
        (112, 3, 2, 0, 55, 56),  # GoogLeNet's pool1
        (6, 3, 2, 1, 3, 4),  # starts -1, 1, 3 and, rounding up, 5
        (5, 2, 3, 1, 2, 2),  # a third would start at 5, in the right padding
        (1, 1, 1, 0, 1, 1),
    ],
)
def test_pool_windows(
    size: int, kernel: int, stride: int, padding: int, floor: int, ceil: int
) -> None:
    for ceil_mode, expected in ((False, floor), (True, ceil)):
        pool = Pool(
            "pool",
            ("images",),
            "max",
            (kernel, kernel),
            (stride, stride),
            (padding, padding),
            ceil_mode,
        )
        assert pool.output_shape([(2, size, size)]) == (2, expected, expected)


def test_what_does_not_change_the_hash() -> None:
    network = build("alexnet_owt")
    renamed = dataclasses.replace(network, name="mine", source="nowhere", options={})
    assert renamed.hash == network.hash
    assert build("alexnet_owt").hash == network.hash
    assert build("alexnet_owt:size=224:dropout=off").hash == network.hash


@pytest.mark.parametrize(
    "spec",
    [
        "alexnet_owt:dropout",
        "alexnet_owt:size=231",
        "alexnet_owt:classes=10",
        "alexnet:lrn=off",
        "googlenet:lrn",
        "googlenet:aux_heads",
        "resnet50:stride_in=1x1",
        "conv_l5:size=14",
    ],
)
def test_an_option_changes_the_hash(spec: str) -> None:
    assert build(spec).hash != build(spec.partition(":")[0]).hash


@pytest.mark.parametrize(
    ("spec", "golden"),
    [
        ("alexnet", "c2e77a1051a7"),
        ("alexnet_owt", "b1981b7ebf15"),
        ("googlenet", "625ac0393866"),
        ("googlenet:lrn:aux_heads:dropout", "15b8a990ecda"),
        ("inception_bn", "9d61b8ae82d6"),
        ("overfeat_fast", "e20fc31aa48c"),
        ("resnet50", "74f56f253ca9"),
        ("resnet50:stride_in=1x1", "32fd104f65c7"),
        ("vgg_a", "57a182c4620e"),
        ("conv_l1", "7cb3a3f47257"),
    ],
)
def test_golden_hashes(spec: str, golden: str) -> None:
    # Results of different versions of netdyno are matched by this hash. Whoever changes a
    # network on purpose changes it here too, and says so in the changelog.
    assert build(spec).hash == golden


def test_job_file_form_is_plain_and_resolved() -> None:
    network = build("googlenet:aux_heads")
    data = json.loads(json.dumps(network.to_json()))
    assert data["output"] == "fc"
    assert data["classes"] == 1000
    assert [layer["name"] for layer in data["layers"]] == [layer.name for layer in network.layers]
    assert data["layers"][0]["output_shape"] == [64, 112, 112]
    assert data["layers"][0]["parameters"] == {"weight": [64, 3, 7, 7], "bias": [64]}


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        ((Dense("fc", ("images",), 2),), "put a Flatten before it"),
        ((Conv("conv", ("images",), 4, (3, 3), groups=2),), "must both divide into 2 groups"),
        ((Conv("conv", ("images",), 4, (9, 9)),), "does not fit an input of 8"),
        ((SoftmaxCrossEntropy("loss", ("images",)),), "needs logits"),
        ((Conv("conv", ("nothing",), 4, (3, 3)),), "which does not come before it"),
        ((Conv("conv", ("images",), 4, (3, 3)),) * 2, "two layers are called 'conv'"),
        ((Conv("conv", ("images",), 4, (3, 3)),), "has no SoftmaxCrossEntropy layer"),
    ],
)
def test_a_wrong_graph_is_refused(layers: tuple[Conv, ...], message: str) -> None:
    loss = () if "has no" in message else (SoftmaxCrossEntropy("end", (layers[-1].name,)),)
    with pytest.raises(NetdynoError, match=message):
        Network("wrong", (3, 8, 8), (*layers, *loss))


def test_layers_that_join_must_agree() -> None:
    net = Builder((2, 4, 4))
    first, second = net.conv("a", 2, 3), net.conv("b", 2, 1, reads="images")
    with pytest.raises(ShapeError, match="Add 'sum': shapes differ"):
        net.add_together("sum", [first, second])
    with pytest.raises(ShapeError, match="Concat 'both': heights and widths differ"):
        net.concat("both", [first, second])
