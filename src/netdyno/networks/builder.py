"""Writes a network layer by layer, each reading the one before unless told otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from netdyno.networks.graph import (
    INPUT,
    LRN,
    Add,
    BatchNorm,
    Concat,
    Conv,
    Dense,
    Dropout,
    Flatten,
    Layer,
    Network,
    Pool,
    ReLU,
    Shape,
    SoftmaxCrossEntropy,
)

__all__ = ["Builder"]


class Builder:
    """Collects layers; every method returns the name of the layer it added.

    A layer reads the one named ``reads``; by default ``last``, which is the one added last
    unless it has been set. Kernels, strides and paddings are square.

    Raises:
        ShapeError: from every method, at once, when the layer does not fit what it reads.
    """

    def __init__(self, input_shape: Shape) -> None:
        self.input_shape = input_shape
        self.layers: list[Layer] = []
        self._shapes: dict[str, Shape] = {INPUT: input_shape}
        self.last = INPUT

    def add(self, layer: Layer) -> str:
        self._shapes[layer.name] = layer.output_shape([self._shapes[n] for n in layer.inputs])
        self.layers.append(layer)
        self.last = layer.name
        return layer.name

    def shape(self, name: str) -> Shape:
        """What the layer of this name puts out, for one image."""
        return self._shapes[name]

    def conv(
        self,
        name: str,
        filters: int,
        kernel: int,
        *,
        stride: int = 1,
        padding: int = 0,
        groups: int = 1,
        bias: bool = True,
        reads: str | None = None,
    ) -> str:
        return self.add(
            Conv(
                name,
                (reads or self.last,),
                filters,
                (kernel, kernel),
                (stride, stride),
                (padding, padding),
                groups,
                bias,
            )
        )

    def relu(self) -> str:
        return self.add(ReLU(f"{self.last}_relu", (self.last,)))

    def pool(
        self,
        name: str,
        reduction: Literal["max", "average"],
        kernel: int,
        stride: int,
        *,
        padding: int = 0,
        ceil_mode: bool = False,
        reads: str | None = None,
    ) -> str:
        return self.add(
            Pool(
                name,
                (reads or self.last,),
                reduction,
                (kernel, kernel),
                (stride, stride),
                (padding, padding),
                ceil_mode,
            )
        )

    def global_average_pool(self, name: str) -> str:
        height, width = self._shapes[self.last][1:]
        return self.add(Pool(name, (self.last,), "average", (height, width), (1, 1)))

    def lrn(
        self, name: str, *, size: int = 5, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
    ) -> str:
        return self.add(LRN(name, (self.last,), size, alpha, beta, k))

    def batch_norm(self) -> str:
        return self.add(BatchNorm(f"{self.last}_bn", (self.last,)))

    def concat(self, name: str, sources: list[str]) -> str:
        return self.add(Concat(name, tuple(sources)))

    def add_together(self, name: str, sources: list[str]) -> str:
        return self.add(Add(name, tuple(sources)))

    def flatten(self) -> str:
        return self.add(Flatten(f"{self.last}_flat", (self.last,)))

    def dense(self, name: str, units: int) -> str:
        return self.add(Dense(name, (self.last,), units))

    def dropout(self, rate: float = 0.5) -> str:
        return self.add(Dropout(f"{self.last}_dropout", (self.last,), rate))

    def loss(self, name: str = "loss", *, weight: float = 1.0) -> str:
        return self.add(SoftmaxCrossEntropy(name, (self.last,), weight))

    def network(
        self, name: str, *, options: Mapping[str, bool | int | str], source: str
    ) -> Network:
        return Network(name, self.input_shape, tuple(self.layers), options, source)
