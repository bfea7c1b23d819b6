"""OverFeat, the winner of the localization task of ILSVRC 2013."""

from __future__ import annotations

from netdyno.networks.builder import Builder
from netdyno.networks.options import Classes, Size
from netdyno.networks.zoo import network

__all__ = ["overfeat_fast"]


@network("overfeat_fast", source="Sermanet et al. 2014, arXiv:1312.6229, table 1 (fast model)")
def overfeat_fast(*, size: Size = 231, classes: Classes = 1000, dropout: bool = False) -> Builder:
    """The fast model of OverFeat.

    convnet-benchmarks leaves dropout out; with it on, it comes before fc6 and fc7.
    """
    net = Builder((3, size, size))
    net.conv("conv1", 96, 11, stride=4)
    net.relu()
    net.pool("pool1", "max", 2, 2)
    net.conv("conv2", 256, 5)
    net.relu()
    net.pool("pool2", "max", 2, 2)
    for name, filters in (("conv3", 512), ("conv4", 1024), ("conv5", 1024)):
        net.conv(name, filters, 3, padding=1)
        net.relu()
    net.pool("pool5", "max", 2, 2)
    net.flatten()
    for name, units in (("fc6", 3072), ("fc7", 4096)):
        if dropout:
            net.dropout()
        net.dense(name, units)
        net.relu()
    net.dense("fc8", classes)
    net.loss()
    return net
