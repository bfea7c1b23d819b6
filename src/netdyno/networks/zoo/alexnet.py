"""AlexNet, as published in 2012 and as convnet-benchmarks runs it."""

from __future__ import annotations

from netdyno.networks.builder import Builder
from netdyno.networks.options import Classes, Size
from netdyno.networks.zoo import network

__all__ = ["alexnet", "alexnet_owt"]


@network(
    "alexnet",
    source="Krizhevsky, Sutskever & Hinton 2012, NIPS; one tower with groups as in BVLC Caffe",
)
def alexnet(
    *, size: Size = 227, classes: Classes = 1000, lrn: bool = True, dropout: bool = True
) -> Builder:
    """AlexNet of 2012 on one device: its two towers are two groups in conv2, conv4 and conv5.

    The input is 227 without padding, since the paper's 224 does not give its 55x55 maps. Order
    and constants are the paper's: normalization comes before pooling (CaffeNet swaps them) and
    k = 2. The paper multiplies the plain sum of squares by alpha = 1e-4; ``LRN`` divides by its
    size of 5 first, hence 5e-4 here.
    """
    net = Builder((3, size, size))
    for name, filters, kernel, stride, padding, groups in (
        ("1", 96, 11, 4, 0, 1),
        ("2", 256, 5, 1, 2, 2),
    ):
        net.conv(f"conv{name}", filters, kernel, stride=stride, padding=padding, groups=groups)
        net.relu()
        if lrn:
            net.lrn(f"norm{name}", size=5, alpha=5e-4, beta=0.75, k=2.0)
        net.pool(f"pool{name}", "max", 3, 2)
    for name, filters, groups in (("conv3", 384, 1), ("conv4", 384, 2), ("conv5", 256, 2)):
        net.conv(name, filters, 3, padding=1, groups=groups)
        net.relu()
    net.pool("pool5", "max", 3, 2)
    net.flatten()
    for name in ("fc6", "fc7"):
        net.dense(name, 4096)
        net.relu()
        if dropout:
            net.dropout()
    net.dense("fc8", classes)
    net.loss()
    return net


@network(
    "alexnet_owt",
    source="Krizhevsky 2014, arXiv:1404.5997, with the sizes of convnet-benchmarks and torchvision",
)
def alexnet_owt(*, size: Size = 224, classes: Classes = 1000, dropout: bool = False) -> Builder:
    """AlexNet of the "one weird trick" paper: one tower, no groups, no normalization.

    The paper has 384 filters in conv4; convnet-benchmarks and torchvision have 256, and theirs
    are the published times and counts, so 256 it is. convnet-benchmarks leaves dropout out; with
    it on, it comes before fc6 and fc7, where torchvision has it.
    """
    net = Builder((3, size, size))
    net.conv("conv1", 64, 11, stride=4, padding=2)
    net.relu()
    net.pool("pool1", "max", 3, 2)
    net.conv("conv2", 192, 5, padding=2)
    net.relu()
    net.pool("pool2", "max", 3, 2)
    for name, filters in (("conv3", 384), ("conv4", 256), ("conv5", 256)):
        net.conv(name, filters, 3, padding=1)
        net.relu()
    net.pool("pool5", "max", 3, 2)
    net.flatten()
    for name in ("fc6", "fc7"):
        if dropout:
            net.dropout()
        net.dense(name, 4096)
        net.relu()
    net.dense("fc8", classes)
    net.loss()
    return net
