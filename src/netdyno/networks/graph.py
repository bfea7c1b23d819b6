"""The neutral definition of a convnet: a small graph of typed layers.

Shapes are those of one image, channels first: ``(channels, height, width)`` for
feature maps, ``(features,)`` after ``Flatten``. The batch is no part of a network.
Semantics are pinned here once; every adapter follows them:

* ``Conv`` is a cross-correlation with symmetric zero padding; weight ``(out, in/groups, kh, kw)``.
* ``Pool`` rounds down, or up with ``ceil_mode`` (a window must start inside the image or its
  left padding). Max pooling ignores padding. Average pooling divides by the number of positions
  inside the padded image (``count_padding``) or inside the image itself.
* ``LRN`` across channels: ``x / (k + alpha / size * sum(x^2)) ** beta``.
* ``BatchNorm`` in training mode: normalizes with the batch's mean and *biased* variance;
  ``running = (1 - momentum) * running + momentum * batch``, with the *unbiased* variance
  (Ioffe & Szegedy 2015, algorithm 2).
* ``Dense``: ``x @ weight.T + bias``, weight ``(out, in)``; ``Flatten`` is in C, H, W order.
* ``SoftmaxCrossEntropy``: mean over the batch, times ``weight``; losses of a network add up.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Literal, TypeAlias

from netdyno.errors import NetdynoError

__all__ = [
    "LRN",
    "Add",
    "BatchNorm",
    "Concat",
    "Conv",
    "Dense",
    "Dropout",
    "Flatten",
    "Layer",
    "Network",
    "Pool",
    "ReLU",
    "Shape",
    "ShapeError",
    "SoftmaxCrossEntropy",
]

Shape: TypeAlias = tuple[int, ...]
Pair: TypeAlias = tuple[int, int]

INPUT = "images"


class ShapeError(NetdynoError):
    """A layer that does not fit what it is given."""


@dataclass(frozen=True)
class Layer:
    """One operation: its name, and the names of the layers (or ``images``) it reads."""

    name: str
    inputs: tuple[str, ...]

    def __post_init__(self) -> None:
        for setting in dataclasses.fields(self):
            value = getattr(self, setting.name)
            for number in value if isinstance(value, tuple) else (value,):
                if isinstance(number, float):
                    self._need(math.isfinite(number), setting.name, "must be finite")
                elif isinstance(number, int) and not isinstance(number, bool):
                    least = 0 if setting.name == "padding" else 1
                    self._need(number >= least, setting.name, f"must be {least} or more")

    def _need(self, holds: bool, setting: str, rule: str) -> None:
        """Raises NetdynoError where a setting makes no sense, whoever wrote it."""
        if not holds:
            value = getattr(self, setting)
            raise NetdynoError(f"{self.kind} '{self.name}': {setting} {rule}, not {value}")

    @property
    def kind(self) -> str:
        return type(self).__name__

    def output_shape(self, inputs: list[Shape]) -> Shape:
        """Shape for one image; by default that of the first input.

        Raises:
            ShapeError: the layer does not fit its inputs.
        """
        return inputs[0]

    def parameter_shapes(self, inputs: list[Shape]) -> dict[str, Shape]:
        """Learned arrays by short name (``weight``, ``bias``), in a fixed order."""
        return {}

    def _feature_map(self, shape: Shape) -> tuple[int, int, int]:
        if len(shape) != 3:
            raise ShapeError(f"{self.kind} '{self.name}' needs (C, H, W) but reads {shape}")
        return shape[0], shape[1], shape[2]

    def _windows(self, size: int, axis: int, *, ceil: bool = False) -> int:
        kernel: int = self.kernel[axis]  # type: ignore[attr-defined]
        stride: int = self.stride[axis]  # type: ignore[attr-defined]
        padding: int = self.padding[axis]  # type: ignore[attr-defined]
        room = size + 2 * padding - kernel
        if room < 0:
            raise ShapeError(
                f"{self.kind} '{self.name}': a window of {kernel} does not fit "
                f"an input of {size} with padding {padding}; use a larger input size"
            )
        if not ceil:
            return room // stride + 1
        count = -(-room // stride) + 1
        # The last window must start inside the image or its left padding (Caffe, PyTorch).
        return count - 1 if (count - 1) * stride >= size + padding else count


@dataclass(frozen=True)
class Conv(Layer):
    filters: int
    kernel: Pair
    stride: Pair = (1, 1)
    padding: Pair = (0, 0)
    groups: int = 1
    bias: bool = True

    def output_shape(self, inputs: list[Shape]) -> Shape:
        channels, height, width = self._feature_map(inputs[0])
        if channels % self.groups or self.filters % self.groups:
            raise ShapeError(
                f"Conv '{self.name}': {channels} input channels and {self.filters} filters "
                f"must both divide into {self.groups} groups"
            )
        return self.filters, self._windows(height, 0), self._windows(width, 1)

    def parameter_shapes(self, inputs: list[Shape]) -> dict[str, Shape]:
        shapes: dict[str, Shape] = {
            "weight": (self.filters, inputs[0][0] // self.groups, *self.kernel)
        }
        if self.bias:
            shapes["bias"] = (self.filters,)
        return shapes


@dataclass(frozen=True)
class Pool(Layer):
    reduction: Literal["max", "average"]
    kernel: Pair
    stride: Pair
    padding: Pair = (0, 0)
    ceil_mode: bool = False
    count_padding: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        # Else a window would see padding only.
        fits = all(p < k for p, k in zip(self.padding, self.kernel, strict=True))
        self._need(fits, "padding", "must be smaller than the kernel")

    def output_shape(self, inputs: list[Shape]) -> Shape:
        channels, height, width = self._feature_map(inputs[0])
        return (
            channels,
            self._windows(height, 0, ceil=self.ceil_mode),
            self._windows(width, 1, ceil=self.ceil_mode),
        )


@dataclass(frozen=True)
class ReLU(Layer):
    pass


@dataclass(frozen=True)
class LRN(Layer):
    size: int = 5
    alpha: float = 1e-4
    beta: float = 0.75
    k: float = 1.0

    def output_shape(self, inputs: list[Shape]) -> Shape:
        return self._feature_map(inputs[0])


@dataclass(frozen=True)
class BatchNorm(Layer):
    eps: float = 1e-5
    momentum: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        self._need(self.eps > 0, "eps", "must be positive")
        self._need(0 <= self.momentum <= 1, "momentum", "must be from 0 to 1")

    def output_shape(self, inputs: list[Shape]) -> Shape:
        return self._feature_map(inputs[0])

    def parameter_shapes(self, inputs: list[Shape]) -> dict[str, Shape]:
        return {"weight": (inputs[0][0],), "bias": (inputs[0][0],)}


@dataclass(frozen=True)
class Concat(Layer):
    """Along channels."""

    def output_shape(self, inputs: list[Shape]) -> Shape:
        maps = [self._feature_map(shape) for shape in inputs]
        if len({shape[1:] for shape in maps}) != 1:
            raise ShapeError(
                f"Concat '{self.name}': heights and widths differ: {inputs}; "
                "use an input size that halves evenly, such as a multiple of 32"
            )
        return sum(shape[0] for shape in maps), *maps[0][1:]


@dataclass(frozen=True)
class Add(Layer):
    def output_shape(self, inputs: list[Shape]) -> Shape:
        if len(set(inputs)) != 1:
            raise ShapeError(f"Add '{self.name}': shapes differ: {inputs}")
        return inputs[0]


@dataclass(frozen=True)
class Dense(Layer):
    units: int
    bias: bool = True

    def output_shape(self, inputs: list[Shape]) -> Shape:
        if len(inputs[0]) != 1:
            raise ShapeError(f"Dense '{self.name}' reads {inputs[0]}: put a Flatten before it")
        return (self.units,)

    def parameter_shapes(self, inputs: list[Shape]) -> dict[str, Shape]:
        shapes: dict[str, Shape] = {"weight": (self.units, inputs[0][0])}
        if self.bias:
            shapes["bias"] = (self.units,)
        return shapes


@dataclass(frozen=True)
class Dropout(Layer):
    """Zeroes a share ``rate`` of its input and scales the rest by ``1 / (1 - rate)``."""

    rate: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        self._need(0 <= self.rate < 1, "rate", "must be from 0 to below 1")


@dataclass(frozen=True)
class Flatten(Layer):
    def output_shape(self, inputs: list[Shape]) -> Shape:
        channels, height, width = self._feature_map(inputs[0])
        return (channels * height * width,)


@dataclass(frozen=True)
class SoftmaxCrossEntropy(Layer):
    weight: float = 1.0

    def output_shape(self, inputs: list[Shape]) -> Shape:
        if len(inputs[0]) != 1:
            raise ShapeError(f"SoftmaxCrossEntropy '{self.name}' needs logits, reads {inputs[0]}")
        return ()


KINDS: dict[str, type[Layer]] = {
    cls.__name__: cls
    for cls in (
        Conv,
        Pool,
        ReLU,
        LRN,
        BatchNorm,
        Concat,
        Add,
        Dense,
        Dropout,
        Flatten,
        SoftmaxCrossEntropy,
    )
}


@dataclass(frozen=True)
class Network:
    """A whole convnet, from ``images`` to its losses.

    Args:
        name: the zoo's name, or a person's own.
        input_shape: ``(channels, height, width)`` of one image.
        layers: in an order in which each layer follows what it reads.
        options: what distinguishes this variant (``{"dropout": False, …}``).
        source: where the definition was published.

    Raises:
        NetdynoError: a name is used twice, a layer reads what does not come before it,
            shapes do not fit, or there is no loss.
    """

    name: str
    input_shape: Shape
    layers: tuple[Layer, ...]
    options: Mapping[str, bool | int | str] = field(default_factory=dict)
    source: str = ""

    SCHEMA: ClassVar[int] = 1

    def __post_init__(self) -> None:
        seen = {INPUT}
        for layer in self.layers:
            missing = [name for name in layer.inputs if name not in seen]
            if missing:
                raise NetdynoError(
                    f"network '{self.name}': layer '{layer.name}' reads '{missing[0]}', "
                    "which does not come before it"
                )
            if layer.name in seen:
                raise NetdynoError(f"network '{self.name}': two layers are called '{layer.name}'")
            seen.add(layer.name)
        if not self.losses:
            raise NetdynoError(f"network '{self.name}' has no SoftmaxCrossEntropy layer")
        _ = self.shapes  # a network whose shapes do not fit never exists

    @cached_property
    def losses(self) -> tuple[SoftmaxCrossEntropy, ...]:
        return tuple(layer for layer in self.layers if isinstance(layer, SoftmaxCrossEntropy))

    @property
    def output(self) -> str:
        """Name of the layer whose output are the logits: what the last loss reads."""
        return self.losses[-1].inputs[0]

    @property
    def classes(self) -> int:
        return self.shapes[self.output][0]

    @cached_property
    def shapes(self) -> dict[str, Shape]:
        """Output shape of every layer, and of ``images``, for one image."""
        shapes: dict[str, Shape] = {INPUT: tuple(self.input_shape)}
        for layer in self.layers:
            shapes[layer.name] = layer.output_shape([shapes[name] for name in layer.inputs])
        return shapes

    def input_shapes(self, layer: Layer) -> list[Shape]:
        return [self.shapes[name] for name in layer.inputs]

    @cached_property
    def parameter_shapes(self) -> dict[str, Shape]:
        """``{"conv1.weight": (64, 3, 11, 11), …}`` in layer order."""
        return {
            f"{layer.name}.{short}": shape
            for layer in self.layers
            for short, shape in layer.parameter_shapes(self.input_shapes(layer)).items()
        }

    @property
    def hash(self) -> str:
        """Identity: equal if and only if two networks compute the same function.

        Twelve hexadecimal digits of a SHA-256 over shapes and layers. The name, the options
        (whose effect is in the layers) and the source are left out.
        """
        text = json.dumps(
            [self.SCHEMA, self.input_shape, self._layers_json()],
            sort_keys=True,
            separators=(",", ":"),
        )
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def _layers_json(self) -> list[dict[str, Any]]:
        return [{"kind": layer.kind, **dataclasses.asdict(layer)} for layer in self.layers]

    def to_json(self) -> dict[str, Any]:
        """Plain data for a job file; shapes are resolved so that the worker infers nothing."""
        layers = self._layers_json()
        for layer, data in zip(self.layers, layers, strict=True):
            data["output_shape"] = self.shapes[layer.name]
            data["parameters"] = layer.parameter_shapes(self.input_shapes(layer))
        return {
            "schema": self.SCHEMA,
            "name": self.name,
            "hash": self.hash,
            "options": dict(self.options),
            "source": self.source,
            "input_shape": self.input_shape,
            "output": self.output,
            "classes": self.classes,
            "layers": layers,
        }
