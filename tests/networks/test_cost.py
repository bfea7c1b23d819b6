"""FLOP and bytes: by hand for each kind of layer, and against published figures."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from netdyno.networks import build, names
from netdyno.networks.builder import Builder
from netdyno.networks.cost import LayerCost, NetworkCost, count
from netdyno.networks.graph import KINDS, Conv, Layer


def multiply_adds(
    spec: str,
    kinds: tuple[str, ...] = ("Conv", "Dense"),
    only: Callable[[Layer], bool] | None = None,
) -> int:
    """Of convolutions and dense layers, which is what the published figures count."""
    network = build(spec)
    costs = zip(network.layers, count(network).layers, strict=True)
    return sum(
        cost.forward_flop // 2
        for layer, cost in costs
        if cost.kind in kinds and (only is None or only(layer))
    )


def cost_of(net: Builder, name: str) -> LayerCost:
    """Of one layer, in a network that is ended in some way."""
    if len(net.layers[-1].output_shape([(4, 4, 4)])) == 3:
        net.flatten()
    net.loss()
    network = net.network("test", options={}, source="")
    return {cost.name: cost for cost in count(network).layers}[name]


def small() -> NetworkCost:
    net = Builder((2, 5, 5))
    net.conv("conv1", 3, 3)
    net.relu()
    net.conv("conv2", 4, 3)
    net.flatten()
    net.dense("fc", 5)
    net.loss()
    return count(net.network("small", options={}, source=""), batch_size=10, itemsize_bytes=2)


def test_a_small_network_by_hand() -> None:
    cost = small()
    conv1 = 2 * (2 * 9) * (3 * 3 * 3)
    conv2 = 2 * (3 * 9) * 4
    fc = 2 * 4 * 5
    assert cost.forward_flop == 10 * (conv1 + 27 + conv2 + fc + 4 * 5)
    # conv1 reads the images: its gradient of weights only.
    assert cost.backward_flop == 10 * (conv1 + 27 + 2 * conv2 + 2 * fc + 2 * 5)
    assert cost.activation_elements == 10 * (27 + 27 + 4 + 5 + 1)
    assert cost.activation_bytes == 2 * cost.activation_elements
    assert cost.parameters == (3 * 18 + 3) + (4 * 27 + 4) + (5 * 4 + 5)
    assert cost.parameter_bytes == 2 * cost.parameters


def test_groups_divide_the_work() -> None:
    whole, half = Builder((4, 4, 4)), Builder((4, 4, 4))
    whole.conv("conv", 4, 3)
    half.conv("conv", 4, 3, groups=2)
    assert cost_of(whole, "conv").forward_flop == 2 * cost_of(half, "conv").forward_flop


@pytest.mark.parametrize(
    ("size", "padding", "ceil_mode", "windows", "reads"),
    [
        (8, 0, False, 3, 3 + 3 + 3),
        (8, 0, True, 4, 3 + 3 + 3 + 2),  # the fourth window starts at 6 and sees 6, 7
        (6, 1, True, 4, 2 + 3 + 3 + 1),  # starts -1, 1, 3, 5
        (5, 1, False, 3, 2 + 3 + 2),  # starts -1, 1, 3
    ],
)
def test_pooling_counts_what_its_windows_see(
    size: int, padding: int, ceil_mode: bool, windows: int, reads: int
) -> None:
    outputs = 2 * windows * windows
    for reduction, forward, backward in (
        ("max", 2 * reads * reads, outputs),
        ("average", 2 * reads * reads + outputs, 2 * reads * reads + outputs),
    ):
        net = Builder((1, size, size))
        net.conv("conv", 2, 1)
        net.pool("pool", reduction, 3, 2, padding=padding, ceil_mode=ceil_mode)  # type: ignore[arg-type]
        cost = cost_of(net, "pool")
        assert (cost.forward_flop, cost.backward_flop) == (forward, backward)
        assert cost.activation_elements == outputs


def test_elementwise_layers() -> None:
    elements = 4 * 3 * 3
    net = Builder((1, 3, 3))
    net.conv("conv", 4, 1)
    net.lrn("lrn", size=5)
    net.batch_norm()
    net.dropout()
    net.add_together("sum", ["conv", "lrn", net.last])
    net.concat("join", ["sum", "conv"])
    net.flatten()
    net.loss()
    layers = count(net.network("test", options={}, source="")).layers
    assert {c.name: (c.forward_flop, c.backward_flop) for c in layers[1:]} == {
        "lrn": (9 * elements, 10 * elements),
        "lrn_bn": (7 * elements, 7 * elements),
        "lrn_bn_dropout": (elements, elements),
        "sum": (2 * elements, 0),
        "join": (0, 0),
        "join_flat": (0, 0),
        "loss": (4 * 2 * elements, 2 * 2 * elements),
    }


def test_every_kind_of_layer_has_a_cost() -> None:
    seen = {layer.kind for spec in (*names(), "googlenet:lrn") for layer in build(spec).layers}
    assert seen == set(KINDS)
    for spec in names():
        assert count(build(spec)).forward_flop > 0


@pytest.mark.parametrize(
    ("spec", "published", "rounding"),
    [
        # `_ops` of the weights in torchvision/models/{alexnet,vgg,resnet}.py, in 1e9.
        ("alexnet_owt", 0.714e9, 0.0005e9),
        ("vgg_a", 7.609e9, 0.0005e9),
        ("vgg_d", 15.47e9, 0.005e9),
        ("resnet50", 4.089e9, 0.0005e9),
        # arXiv:1512.03385, table 1: 3.8e9 multiply-adds for 50 layers.
        ("resnet50:stride_in=1x1", 3.8e9, 0.06e9),
        # arXiv:1312.6229, table 4: 2810 million connections for the fast model.
        ("overfeat_fast", 2810e6, 0.005 * 2810e6),
        # arXiv:1409.4842, section 1: designed for a budget of 1.5 billion multiply-adds.
        ("googlenet", 1.5e9, 0.1e9),
        # README of osmr/imgclsmob: BN-Inception, 2,048.06M, which counts more than products.
        ("inception_bn", 2048.06e6, 0.01 * 2048.06e6),
    ],
)
def test_multiply_adds_against_published(spec: str, published: float, rounding: float) -> None:
    assert multiply_adds(spec) == pytest.approx(published, abs=rounding)


@pytest.mark.parametrize(
    ("spec", "convolutions", "dense"),
    [
        # README of KamelAbdelouahab/CNN-Workload: multiply-adds of the BVLC Caffe models.
        ("alexnet", 666e6, 58.6e6),
        ("googlenet", 1.58e9, 1.02e6),
        ("vgg_d", 15.3e9, 124e6),
        ("resnet50:stride_in=1x1", 3.86e9, 2.05e6),
    ],
)
def test_multiply_adds_by_kind(spec: str, convolutions: float, dense: float) -> None:
    assert multiply_adds(spec, ("Conv",)) == pytest.approx(convolutions, rel=0.005)
    assert multiply_adds(spec, ("Dense",)) == pytest.approx(dense, rel=0.005)


def test_resnet_multiply_adds_exactly() -> None:
    # README of aiotalabs/caffe_scripts: the Caffe model of the paper's authors (stride in 1x1).
    def kernel(size: int) -> Callable[[Layer], bool]:
        return lambda layer: isinstance(layer, Conv) and layer.kernel == (size, size)

    spec = "resnet50:stride_in=1x1"
    assert multiply_adds(spec, only=kernel(7)) == 118_013_952
    assert multiply_adds(spec, only=kernel(1)) == 1_888_223_232
    assert multiply_adds(spec, only=kernel(3)) == 1_849_688_064
    assert multiply_adds(spec, ("Dense",)) == 2_048_000


@pytest.mark.parametrize(
    ("spec", "gflop_per_second", "seconds"),
    [
        # README of soumith/convnet-benchmarks at 010df9f: rate and time of
        # Caffe/nn.SpatialConvolutionMM for the forward pass over 128 images.
        ("conv_l1", 1177.7879871761, 0.10546654462814),
        ("conv_l2", 2219.3736959591, 0.24002724885941),
        ("conv_l3", 1164.72445476, 0.16801351308823),
        ("conv_l4", 490.99599360714, 0.041857957839966),
        ("conv_l5", 735.82546939461, 0.05586701631546),
    ],
)
def test_single_convolutions_against_published(
    spec: str, gflop_per_second: float, seconds: float
) -> None:
    flop = count(build(spec), batch_size=128).layers[0].forward_flop
    assert flop == pytest.approx(gflop_per_second * seconds * 1e9, rel=1e-6)


@pytest.mark.parametrize("spec", [f"conv_l{n}" for n in range(1, 6)])
def test_the_head_of_a_single_convolution_is_negligible(spec: str) -> None:
    cost = count(build(spec))
    head = sum(layer.forward_flop for layer in cost.layers if layer.kind != "Conv")
    assert 0 < head / cost.forward_flop < 0.0014
    assert cost.parameters == cost.layers[0].parameters
