"""The zoo against what was published.

Parameter counts are derived here a second time, from the rows of the papers' tables.
"""

from __future__ import annotations

import math

import pytest

from netdyno.networks import build
from netdyno.networks.graph import LRN, BatchNorm, Conv, Dropout, Network, Pool


def parameters(network: Network) -> int:
    return sum(math.prod(shape) for shape in network.parameter_shapes.values())


def conv(inputs: int, outputs: int, kernel: int) -> int:
    """With bias."""
    return inputs * outputs * kernel**2 + outputs


def conv_bn(inputs: int, outputs: int, kernel: int) -> int:
    """Without bias, with a scale and a shift."""
    return inputs * outputs * kernel**2 + 2 * outputs


def dense(inputs: int, outputs: int) -> int:
    return inputs * outputs + outputs


# arXiv:1312.6229, table 1: the last maps are 6x6.
OVERFEAT = (
    conv(3, 96, 11)
    + conv(96, 256, 5)
    + conv(256, 512, 3)
    + conv(512, 1024, 3)
    + conv(1024, 1024, 3)
    + dense(1024 * 6 * 6, 3072)
    + dense(3072, 4096)
    + dense(4096, 1000)
)


def inception(inputs: int, row: tuple[int, ...]) -> int:
    one, three_reduce, three, five_reduce, five, projection = row
    return (
        conv(inputs, one, 1)
        + conv(inputs, three_reduce, 1)
        + conv(three_reduce, three, 3)
        + conv(inputs, five_reduce, 1)
        + conv(five_reduce, five, 5)
        + conv(inputs, projection, 1)
    )


# arXiv:1409.4842, table 1: input channels of each row, and the row.
GOOGLENET = (
    conv(3, 64, 7)
    + conv(64, 64, 1)
    + conv(64, 192, 3)
    + inception(192, (64, 96, 128, 16, 32, 32))
    + inception(256, (128, 128, 192, 32, 96, 64))
    + inception(480, (192, 96, 208, 16, 48, 64))
    + inception(512, (160, 112, 224, 24, 64, 64))
    + inception(512, (128, 128, 256, 24, 64, 64))
    + inception(512, (112, 144, 288, 32, 64, 64))
    + inception(528, (256, 160, 320, 32, 128, 128))
    + inception(832, (256, 160, 320, 32, 128, 128))
    + inception(832, (384, 192, 384, 48, 128, 128))
    + dense(1024, 1000)
)
# Section 5 of the paper: a 5x5 average pooling with stride 3 leaves 4x4, then these.
GOOGLENET_HEADS = sum(
    conv(channels, 128, 1) + dense(4 * 4 * 128, 1024) + dense(1024, 1000) for channels in (512, 528)
)


def inception_bn(inputs: int, row: tuple[int, ...]) -> int:
    one, three_reduce, three, double_reduce, double, projection = row
    return (
        conv_bn(inputs, one, 1)
        + conv_bn(inputs, three_reduce, 1)
        + conv_bn(three_reduce, three, 3)
        + conv_bn(inputs, double_reduce, 1)
        + conv_bn(double_reduce, double, 3)
        + conv_bn(double, double, 3)
        + conv_bn(inputs, projection, 1)
    )


# example/image-classification/symbol_inception-bn.py of apache/mxnet at 26ca19b, get_symbol().
INCEPTION_BN = (
    conv_bn(3, 64, 7)
    + conv_bn(64, 64, 1)
    + conv_bn(64, 192, 3)
    + inception_bn(192, (64, 64, 64, 64, 96, 32))
    + inception_bn(256, (64, 64, 96, 64, 96, 64))
    + inception_bn(320, (0, 128, 160, 64, 96, 0))
    + inception_bn(576, (224, 64, 96, 96, 128, 128))
    + inception_bn(576, (192, 96, 128, 96, 128, 128))
    + inception_bn(576, (160, 128, 160, 128, 160, 128))
    + inception_bn(608, (96, 128, 192, 160, 192, 128))
    + inception_bn(608, (0, 128, 192, 192, 256, 0))
    + inception_bn(1056, (352, 192, 320, 160, 224, 128))
    + inception_bn(1024, (352, 192, 320, 192, 224, 128))
    + dense(1024, 1000)
)


@pytest.mark.parametrize(
    ("spec", "count"),
    [
        ("alexnet", 60_965_224),  # the BVLC Caffe model
        ("alexnet_owt", 61_100_840),  # torchvision, alexnet
        ("vgg_a", 132_863_336),  # torchvision, vgg11
        ("vgg_d", 138_357_544),  # torchvision, vgg16
        ("resnet50", 25_557_032),  # torchvision, resnet50
        ("resnet50:stride_in=1x1", 25_557_032),
        ("overfeat_fast", OVERFEAT),
        ("googlenet", GOOGLENET),
        ("googlenet:lrn:dropout", GOOGLENET),
        ("googlenet:aux_heads", GOOGLENET + GOOGLENET_HEADS),
        ("inception_bn", INCEPTION_BN),
        ("conv_l1", conv(3, 96, 11)),
        ("conv_l2", conv(64, 128, 9)),
        ("conv_l3", conv(128, 128, 9)),
        ("conv_l4", conv(128, 128, 7)),
        ("conv_l5", conv(384, 384, 3)),
    ],
)
def test_parameters(spec: str, count: int) -> None:
    assert parameters(build(spec)) == count


def test_parameters_against_published_totals() -> None:
    # arXiv:1312.6229, table 4: 145 million.
    assert round(OVERFEAT / 1e6) in (145, 146)
    # Open Model Zoo, googlenet-v1 (the BVLC Caffe model): 6.999 million.
    assert round(GOOGLENET / 1e6, 3) == 6.999
    # osmr/imgclsmob, BN-Inception: 11,295,240, with a bias for each of the filters.
    filters = sum(c.filters for c in build("inception_bn").layers if isinstance(c, Conv))
    assert INCEPTION_BN + filters == 11_295_240


@pytest.mark.parametrize(
    ("spec", "shapes"),
    [
        (
            "alexnet",
            {
                "conv1": (96, 55, 55),
                "pool1": (96, 27, 27),
                "pool2": (256, 13, 13),
                "pool5": (256, 6, 6),
            },
        ),
        (
            "alexnet_owt",
            {
                "conv1": (64, 55, 55),
                "pool1": (64, 27, 27),
                "pool2": (192, 13, 13),
                "pool5": (256, 6, 6),
            },
        ),
        (
            "overfeat_fast",
            {
                "conv1": (96, 56, 56),
                "conv2": (256, 24, 24),
                "conv5": (1024, 12, 12),
                "pool5": (1024, 6, 6),
            },
        ),
        ("vgg_a", {"pool1": (64, 112, 112), "pool5": (512, 7, 7)}),
        ("vgg_d", {"conv3_3": (256, 56, 56), "pool5": (512, 7, 7)}),
        (
            "googlenet:aux_heads",
            {
                "pool1": (64, 56, 56),
                "pool2": (192, 28, 28),
                "in3a": (256, 28, 28),
                "in3b": (480, 28, 28),
                "pool3": (480, 14, 14),
                "in4a": (512, 14, 14),
                "in4d": (528, 14, 14),
                "aux2_pool": (528, 4, 4),
                "in4e": (832, 14, 14),
                "in5b": (1024, 7, 7),
                "pool5": (1024, 1, 1),
            },
        ),
        (
            "inception_bn",
            {
                "pool2": (192, 28, 28),
                "in3b": (320, 28, 28),
                "in3c": (576, 14, 14),
                "in4d": (608, 14, 14),
                "in4e": (1056, 7, 7),
                "in5b": (1024, 7, 7),
            },
        ),
        (
            "resnet50",
            {
                "pool1": (64, 56, 56),
                "res3_1_1x1": (128, 56, 56),
                "res2_3": (256, 56, 56),
                "res3_4": (512, 28, 28),
                "res4_6": (1024, 14, 14),
                "res5_3": (2048, 7, 7),
            },
        ),
        ("resnet50:stride_in=1x1", {"res3_1_1x1": (128, 28, 28), "res5_3": (2048, 7, 7)}),
        ("conv_l1", {"conv": (96, 118, 118)}),
        ("conv_l2", {"conv": (128, 56, 56)}),
        ("conv_l3", {"conv": (128, 24, 24)}),
        ("conv_l4", {"conv": (128, 10, 10)}),
        ("conv_l5", {"conv": (384, 11, 11)}),
    ],
)
def test_shapes(spec: str, shapes: dict[str, tuple[int, ...]]) -> None:
    network = build(spec)
    assert {name: network.shapes[name] for name in shapes} == shapes


def test_alexnet_has_the_constants_of_the_paper() -> None:
    # k + alpha * sum in the paper, k + alpha / size * sum in the graph.
    norms = [layer for layer in build("alexnet").layers if isinstance(layer, LRN)]
    assert [norm.inputs for norm in norms] == [("conv1_relu",), ("conv2_relu",)]
    for norm in norms:
        assert (norm.k, norm.size, norm.beta) == (2.0, 5, 0.75)
        assert norm.alpha / norm.size == pytest.approx(1e-4)


def test_googlenet_heads_come_before_the_main_loss() -> None:
    network = build("googlenet:aux_heads:dropout")
    assert [(loss.name, loss.weight) for loss in network.losses] == [
        ("aux1_loss", 0.3),
        ("aux2_loss", 0.3),
        ("loss", 1.0),
    ]
    assert network.output == "fc"
    dropouts = [layer.rate for layer in network.layers if isinstance(layer, Dropout)]
    assert dropouts == [0.7, 0.7, 0.4]


def test_googlenet_pools_round_up() -> None:
    pools = [layer for layer in build("googlenet").layers if isinstance(layer, Pool)]
    assert all(pool.ceil_mode for pool in pools if pool.stride == (2, 2))


@pytest.mark.parametrize("spec", ["inception_bn", "resnet50"])
def test_batch_norm_follows_every_convolution_and_replaces_its_bias(spec: str) -> None:
    network = build(spec)
    convolutions = [layer for layer in network.layers if isinstance(layer, Conv)]
    norms = [layer for layer in network.layers if isinstance(layer, BatchNorm)]
    assert not any(layer.bias for layer in convolutions)
    assert [norm.inputs for norm in norms] == [(layer.name,) for layer in convolutions]


def test_inception_bn_pools_by_average_except_in_5b() -> None:
    pools = [
        layer
        for layer in build("inception_bn").layers
        if isinstance(layer, Pool) and layer.padding == (1, 1)
    ]
    assert [pool.reduction for pool in pools] == ["average"] * 7 + ["max"]


@pytest.mark.parametrize(
    ("spec", "reads"),
    [
        ("alexnet", ["fc6_relu", "fc7_relu"]),
        ("alexnet_owt:dropout", ["pool5_flat", "fc6_relu"]),
        ("overfeat_fast:dropout", ["pool5_flat", "fc6_relu"]),
        ("vgg_a:dropout", ["fc6_relu", "fc7_relu"]),
        ("vgg_a", []),
    ],
)
def test_where_dropout_is(spec: str, reads: list[str]) -> None:
    dropouts = [layer for layer in build(spec).layers if isinstance(layer, Dropout)]
    assert [layer.inputs[0] for layer in dropouts] == reads


@pytest.mark.parametrize("spec", ["alexnet", "googlenet:aux_heads", "inception_bn", "resnet50"])
def test_classes(spec: str) -> None:
    network = build(f"{spec}:classes=10")
    assert network.classes == 10
    assert all(network.shapes[loss.inputs[0]] == (10,) for loss in network.losses)
