"""Inception with batch normalization, the network of the MXNet paper's ILSVRC12 experiment."""

from __future__ import annotations

from typing import Literal

from netdyno.networks.builder import Builder
from netdyno.networks.options import Classes, Size
from netdyno.networks.zoo import network

__all__ = ["inception_bn"]

# 1x1, 3x3 reduce, 3x3, double 3x3 reduce, double 3x3, pool projection; 3c and 4e, which halve
# the maps, have no 1x1 and pass the pooled input through.
BLOCKS = {
    "3a": (64, 64, 64, 64, 96, 32),
    "3b": (64, 64, 96, 64, 96, 64),
    "3c": (0, 128, 160, 64, 96, 0),
    "4a": (224, 64, 96, 96, 128, 128),
    "4b": (192, 96, 128, 96, 128, 128),
    "4c": (160, 128, 160, 128, 160, 128),
    "4d": (96, 128, 192, 160, 192, 128),
    "4e": (0, 128, 192, 192, 256, 0),
    "5a": (352, 192, 320, 160, 224, 128),
    "5b": (352, 192, 320, 192, 224, 128),
}


@network(
    "inception_bn",
    source="Ioffe & Szegedy 2015, arXiv:1502.03167, figure 5, as in MXNet's symbol_inception-bn",
)
def inception_bn(*, size: Size = 224, classes: Classes = 1000) -> Builder:
    """BN-Inception for 224x224 images, after MXNet's ``symbol_inception-bn.py`` of 2016.

    As there, 4c and 4d project the pooled maps to 128 channels (the paper's figure says 96), and
    pooling rounds up. Unlike there, convolutions have no bias, since batch normalization takes
    it out again (section 3.2 of the paper), and every scale is learned. An input size whose maps
    are odd where 3c or 4e halves them does not fit.
    """
    net = Builder((3, size, size))
    _conv(net, "conv1", 64, 7, stride=2, padding=3)
    net.pool("pool1", "max", 3, 2, ceil_mode=True)
    _conv(net, "conv2_reduce", 64, 1)
    _conv(net, "conv2", 192, 3, padding=1)
    net.pool("pool2", "max", 3, 2, ceil_mode=True)
    for name, filters in BLOCKS.items():
        if filters[0]:
            _block(net, f"in{name}", filters, "max" if name == "5b" else "average")
        else:
            _halving_block(net, f"in{name}", filters)
    net.global_average_pool("pool5")
    net.flatten()
    net.dense("fc", classes)
    net.loss()
    return net


def _conv(
    net: Builder,
    name: str,
    filters: int,
    kernel: int,
    *,
    stride: int = 1,
    padding: int = 0,
    reads: str | None = None,
) -> str:
    net.conv(name, filters, kernel, stride=stride, padding=padding, bias=False, reads=reads)
    net.batch_norm()
    return net.relu()


def _block(
    net: Builder, name: str, filters: tuple[int, ...], pooling: Literal["max", "average"]
) -> None:
    one, three_reduce, three, double_reduce, double, projection = filters
    source = net.last
    ends = [_conv(net, f"{name}_1x1", one, 1)]
    _conv(net, f"{name}_3x3_reduce", three_reduce, 1, reads=source)
    ends.append(_conv(net, f"{name}_3x3", three, 3, padding=1))
    _conv(net, f"{name}_double_reduce", double_reduce, 1, reads=source)
    _conv(net, f"{name}_double_1", double, 3, padding=1)
    ends.append(_conv(net, f"{name}_double_2", double, 3, padding=1))
    net.pool(f"{name}_pool", pooling, 3, 1, padding=1, reads=source)
    ends.append(_conv(net, f"{name}_projection", projection, 1))
    net.concat(name, ends)


def _halving_block(net: Builder, name: str, filters: tuple[int, ...]) -> None:
    _, three_reduce, three, double_reduce, double, _ = filters
    source = net.last
    _conv(net, f"{name}_3x3_reduce", three_reduce, 1)
    ends = [_conv(net, f"{name}_3x3", three, 3, stride=2, padding=1)]
    _conv(net, f"{name}_double_reduce", double_reduce, 1, reads=source)
    _conv(net, f"{name}_double_1", double, 3, padding=1)
    ends.append(_conv(net, f"{name}_double_2", double, 3, stride=2, padding=1))
    ends.append(net.pool(f"{name}_pool", "max", 3, 2, ceil_mode=True, reads=source))
    net.concat(name, ends)
