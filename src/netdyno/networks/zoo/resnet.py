"""Residual networks with bottleneck blocks."""

from __future__ import annotations

from typing import Literal

from netdyno.networks.builder import Builder
from netdyno.networks.options import Classes, Size
from netdyno.networks.zoo import network

__all__ = ["resnet50"]

EXPANSION = 4


@network("resnet50", source="He et al. 2016, arXiv:1512.03385, table 1 (50-layer)")
def resnet50(
    *, size: Size = 224, classes: Classes = 1000, stride_in: Literal["3x3", "1x1"] = "3x3"
) -> Builder:
    """ResNet-50 with projection shortcuts where shapes change (option B of the paper).

    ``stride_in`` says which convolution of a halving block has the stride: the paper's first 1x1
    or, as in torchvision and most benchmarks ("v1.5"), the 3x3.
    """
    net = Builder((3, size, size))
    _conv(net, "conv1", 64, 7, stride=2, padding=3)
    net.relu()
    net.pool("pool1", "max", 3, 2, padding=1)
    for stage, (filters, depth) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3)), start=2):
        for step in range(1, depth + 1):
            stride = 2 if step == 1 and stage > 2 else 1
            strides = (1, stride) if stride_in == "3x3" else (stride, 1)
            _bottleneck(net, f"res{stage}_{step}", filters, strides, project=step == 1)
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
    return net.batch_norm()


def _bottleneck(
    net: Builder, name: str, filters: int, strides: tuple[int, int], *, project: bool
) -> None:
    source = net.last
    _conv(net, f"{name}_1x1", filters, 1, stride=strides[0])
    net.relu()
    _conv(net, f"{name}_3x3", filters, 3, stride=strides[1], padding=1)
    net.relu()
    end = _conv(net, f"{name}_expand", EXPANSION * filters, 1)
    shortcut = source
    if project:
        stride = max(strides)
        shortcut = _conv(
            net, f"{name}_shortcut", EXPANSION * filters, 1, stride=stride, reads=source
        )
    net.add_together(name, [end, shortcut])
    net.relu()
