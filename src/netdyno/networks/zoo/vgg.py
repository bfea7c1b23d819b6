"""The VGG networks: 3x3 convolutions in five stages, each ended by a pooling."""

from __future__ import annotations

from netdyno.networks.builder import Builder
from netdyno.networks.options import Classes, Size
from netdyno.networks.zoo import network

__all__ = ["vgg_a", "vgg_d"]

STAGE_FILTERS = (64, 128, 256, 512, 512)


@network("vgg_a", source="Simonyan & Zisserman 2015, arXiv:1409.1556, table 1, A (VGG-11)")
def vgg_a(*, size: Size = 224, classes: Classes = 1000, dropout: bool = False) -> Builder:
    """VGG-11, the VGG of convnet-benchmarks, which leaves dropout out."""
    return _vgg((1, 1, 2, 2, 2), size, classes, dropout)


@network("vgg_d", source="Simonyan & Zisserman 2015, arXiv:1409.1556, table 1, D (VGG-16)")
def vgg_d(*, size: Size = 224, classes: Classes = 1000, dropout: bool = False) -> Builder:
    """VGG-16; dropout is off unless asked for, so that it stands beside VGG-11."""
    return _vgg((2, 2, 3, 3, 3), size, classes, dropout)


def _vgg(depths: tuple[int, ...], size: int, classes: int, dropout: bool) -> Builder:
    net = Builder((3, size, size))
    for stage, (filters, depth) in enumerate(zip(STAGE_FILTERS, depths, strict=True), start=1):
        for step in range(1, depth + 1):
            net.conv(f"conv{stage}_{step}", filters, 3, padding=1)
            net.relu()
        net.pool(f"pool{stage}", "max", 2, 2)
    net.flatten()
    for name in ("fc6", "fc7"):
        net.dense(name, 4096)
        net.relu()
        if dropout:
            net.dropout()
    net.dense("fc8", classes)
    net.loss()
    return net
