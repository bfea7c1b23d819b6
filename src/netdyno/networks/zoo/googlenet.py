"""GoogLeNet, the first Inception network."""

from __future__ import annotations

from netdyno.networks.builder import Builder
from netdyno.networks.options import Classes, Size
from netdyno.networks.zoo import network

__all__ = ["googlenet"]

# Table 1 of the paper: 1x1, 3x3 reduce, 3x3, 5x5 reduce, 5x5, pool projection.
BLOCKS = {
    "3a": (64, 96, 128, 16, 32, 32),
    "3b": (128, 128, 192, 32, 96, 64),
    "4a": (192, 96, 208, 16, 48, 64),
    "4b": (160, 112, 224, 24, 64, 64),
    "4c": (128, 128, 256, 24, 64, 64),
    "4d": (112, 144, 288, 32, 64, 64),
    "4e": (256, 160, 320, 32, 128, 128),
    "5a": (256, 160, 320, 32, 128, 128),
    "5b": (384, 192, 384, 48, 128, 128),
}
POOL_AFTER = {"3b": "pool3", "4e": "pool4"}
HEAD_AFTER = {"4a": "aux1", "4d": "aux2"}


@network("googlenet", source="Szegedy et al. 2015, arXiv:1409.4842, table 1 (GoogLeNet)")
def googlenet(
    *,
    size: Size = 224,
    classes: Classes = 1000,
    lrn: bool = False,
    aux_heads: bool = False,
    dropout: bool = False,
) -> Builder:
    """GoogLeNet v1; as in convnet-benchmarks without what the three options bring back.

    Pooling rounds up, as in Caffe: rounding down gives 55 where the paper's table has 56.
    Normalization has Caffe's constants (size 5, alpha 1e-4, beta 0.75, k 1), since the paper
    names none. The heads after 4a and 4d weigh 0.3 in the loss. Dropout drops 40% before the
    classifier and 70% in the heads.
    """
    net = Builder((3, size, size))
    _stem(net, lrn)
    for name, filters in BLOCKS.items():
        output = _block(net, f"in{name}", filters)
        if aux_heads and name in HEAD_AFTER:
            _head(net, HEAD_AFTER[name], output, classes, dropout)
        if name in POOL_AFTER:
            net.pool(POOL_AFTER[name], "max", 3, 2, ceil_mode=True, reads=output)
        else:
            net.last = output
    net.global_average_pool("pool5")
    net.flatten()
    if dropout:
        net.dropout(0.4)
    net.dense("fc", classes)
    net.loss()
    return net


def _stem(net: Builder, lrn: bool) -> None:
    net.conv("conv1", 64, 7, stride=2, padding=3)
    net.relu()
    net.pool("pool1", "max", 3, 2, ceil_mode=True)
    if lrn:
        net.lrn("norm1")
    net.conv("conv2_reduce", 64, 1)
    net.relu()
    net.conv("conv2", 192, 3, padding=1)
    net.relu()
    if lrn:
        net.lrn("norm2")
    net.pool("pool2", "max", 3, 2, ceil_mode=True)


def _block(net: Builder, name: str, filters: tuple[int, ...]) -> str:
    one, three_reduce, three, five_reduce, five, projection = filters
    source = net.last
    net.conv(f"{name}_1x1", one, 1)
    ends = [net.relu()]
    net.conv(f"{name}_3x3_reduce", three_reduce, 1, reads=source)
    net.relu()
    net.conv(f"{name}_3x3", three, 3, padding=1)
    ends.append(net.relu())
    net.conv(f"{name}_5x5_reduce", five_reduce, 1, reads=source)
    net.relu()
    net.conv(f"{name}_5x5", five, 5, padding=2)
    ends.append(net.relu())
    net.pool(f"{name}_pool", "max", 3, 1, padding=1, reads=source)
    net.conv(f"{name}_projection", projection, 1)
    ends.append(net.relu())
    return net.concat(name, ends)


def _head(net: Builder, name: str, source: str, classes: int, dropout: bool) -> None:
    net.pool(f"{name}_pool", "average", 5, 3, ceil_mode=True, reads=source)
    net.conv(f"{name}_conv", 128, 1)
    net.relu()
    net.flatten()
    net.dense(f"{name}_fc", 1024)
    net.relu()
    if dropout:
        net.dropout(0.7)
    net.dense(f"{name}_classifier", classes)
    net.loss(f"{name}_loss", weight=0.3)
