"""Single layers, side by side in one network: what a whole network would hide.

Each branch of a sheet is a convolution that turns the images into what the layer under test reads,
the layer, and a small dense head with a loss of its own. The gradient of the head's weights is the
layer's output seen through it; that of the first convolution is the layer's input gradient. One
process checks all layers, and the name of a tensor says which one differs.
"""

from __future__ import annotations

import dataclasses
import functools
import random
from collections.abc import Callable

from netdyno.networks import Network
from netdyno.networks.builder import Builder
from netdyno.networks.graph import (
    LRN,
    Add,
    BatchNorm,
    Concat,
    Conv,
    Layer,
    Pool,
    Shape,
)

__all__ = ["network_sheet", "random_sheets"]

IMAGE = (3, 32, 32)
# Blocked layouts of kernel libraries need a multiple of 8 or 16 channels to be used at all.
CHANNELS = 16
HEAD_CLASSES = 10
# What a pool over everything becomes, and what a batch norm reads.
GLOBAL = (7, 7)
NORMALIZED = (6, 6)
TESTED = (Conv, Pool, LRN, BatchNorm, Concat, Add)


def network_sheet(network: Network) -> Network:
    """Every distinct geometry of a network's layers, with few channels and small images.

    Heights and widths shrink by whole strides, so that a ragged edge stays as ragged.
    """
    found: dict[str, tuple[Layer, Shape]] = {}
    for layer in network.layers:
        if isinstance(layer, TESTED):
            shape = network.input_shapes(layer)[0]
            slim, small = _slim(layer, shape), _small(layer, shape)
            found.setdefault(_label(slim, small), (slim, small))
    return _sheet(f"{network.name} layers", found)


def random_sheets(seed: int = 1, count: int = 6) -> list[Network]:
    """``count`` random geometries of each kind of layer, a network for each kind.

    Pools are split by how they round and whether they pad: what a framework cannot do, or does
    wrong, is then named exactly.
    """
    rng = random.Random(seed)
    kinds: dict[str, Callable[[], Layer]] = {
        "convolutions": lambda: _conv(rng),
        "LRN": lambda: _lrn(rng),
        "batch norms": lambda: _norm(rng),
    }
    for reduction in ("max", "average"):
        for ceil_mode, padded in ((False, True), (True, False), (True, True)):
            name = f"{reduction} pools that round {'up' if ceil_mode else 'down'}"
            kinds[f"{name}, padded" if padded and ceil_mode else name] = functools.partial(
                _pool, rng, reduction, ceil_mode, padded
            )
    sheets = []
    for name, make in kinds.items():
        found: dict[str, tuple[Layer, Shape]] = {}
        for _ in range(count):
            layer, shape = make(), (CHANNELS, rng.randint(9, 24), rng.randint(9, 24))
            found[_label(layer, shape)] = (layer, shape)
        sheets.append(_sheet(f"random {name}", found))
    return sheets


def _sheet(name: str, layers: dict[str, tuple[Layer, Shape]]) -> Network:
    net = Builder(IMAGE)
    for label, (layer, (channels, height, width)) in layers.items():
        window = (IMAGE[1] - height + 1, IMAGE[2] - width + 1)
        stems = []
        # Concat and Add read as many as they like: two.
        for index in range(2 if isinstance(layer, Concat | Add) else 1):
            stem = Conv(
                f"{label} input{index or ''}",
                ("images",),
                channels,
                window,
                # Batch norm takes the mean out: the gradient of a bias before it is zero, and a
                # relative distance from zero says nothing.
                bias=not isinstance(layer, BatchNorm),
            )
            stems.append(net.add(stem))
        net.add(dataclasses.replace(layer, name=label, inputs=tuple(stems)))
        net.flatten()
        net.dense(f"{label} head", HEAD_CLASSES)
        net.loss(f"{label} loss")
    if not layers:
        net.flatten()
        net.dense("head", HEAD_CLASSES)
        net.loss()
    return net.network(name, options={}, source="")


def _small(layer: Layer, shape: Shape) -> Shape:
    if _is_global(layer, shape):
        return (CHANNELS, *GLOBAL)
    if isinstance(layer, BatchNorm):
        # Its size is no part of it; and of two single values each becomes plus or minus one.
        return (CHANNELS, *NORMALIZED)
    if not isinstance(layer, Conv | Pool):
        return (CHANNELS, min(shape[1], 9), min(shape[2], 9))
    sizes = []
    for axis in (0, 1):
        size, stride = shape[1 + axis], layer.stride[axis]
        # At least three windows where there are three, and no larger than the images.
        least = min(size, layer.kernel[axis] + 3 * stride)
        sizes.append(size - max(0, (size - least) // stride) * stride)
    groups = layer.groups if isinstance(layer, Conv) else 1
    return (CHANNELS * groups, *sizes)


def _is_global(layer: Layer, shape: Shape) -> bool:
    return isinstance(layer, Pool) and layer.kernel == shape[1:] and layer.padding == (0, 0)


def _slim(layer: Layer, shape: Shape) -> Layer:
    if isinstance(layer, Pool) and _is_global(layer, shape):
        return dataclasses.replace(layer, kernel=GLOBAL, stride=(1, 1))
    if isinstance(layer, Conv):
        return dataclasses.replace(layer, filters=CHANNELS * layer.groups)
    return layer


def _label(layer: Layer, shape: Shape) -> str:
    """``Conv kernel=3x3 stride=2x2 … on 16x12x13``: what is under test, readable in a report."""
    parts = []
    for field in dataclasses.fields(layer):
        if field.name in ("name", "inputs", "filters"):
            continue
        value = getattr(layer, field.name)
        if value == field.default:
            continue
        text = "x".join(map(str, value)) if isinstance(value, tuple) else str(value)
        parts.append(f"{field.name}={text}")
    return " ".join((layer.kind, *parts, "on", "x".join(map(str, shape))))


def _conv(rng: random.Random) -> Conv:
    kernel = (rng.randint(1, 5), rng.randint(1, 5))
    groups = rng.choice((1, 1, 2, 4))
    stride = (rng.randint(1, 3), rng.randint(1, 3))
    padding = (rng.randint(0, kernel[0] // 2), rng.randint(0, kernel[1] // 2))
    return Conv("", (), CHANNELS, kernel, stride, padding, groups, rng.random() < 0.7)


def _pool(rng: random.Random, reduction: str, ceil_mode: bool, padded: bool) -> Pool:
    kernel = (rng.randint(2, 4), rng.randint(2, 4))
    stride = (rng.randint(1, kernel[0]), rng.randint(1, kernel[1]))
    padding = (rng.randint(0, kernel[0] // 2), rng.randint(0, kernel[1] // 2)) if padded else (0, 0)
    if reduction == "max":
        return Pool("", (), "max", kernel, stride, padding, ceil_mode)
    return Pool("", (), "average", kernel, stride, padding, ceil_mode, rng.random() < 0.5)


def _lrn(rng: random.Random) -> LRN:
    size = rng.choice((3, 5, 7))
    return LRN(
        "", (), size, rng.choice((1e-4, 1e-2)), rng.choice((0.5, 0.75)), rng.choice((1.0, 2.0))
    )


def _norm(rng: random.Random) -> BatchNorm:
    return BatchNorm("", (), rng.choice((1e-5, 1e-3)), rng.choice((0.1, 0.3)))
