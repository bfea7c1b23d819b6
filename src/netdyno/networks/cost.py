"""What a network costs: parameters, FLOP and bytes, from its graph alone.

One multiply-add is 2 FLOP; every other arithmetic operation, comparison, power or exponential
is 1. Bias additions are not counted apart (a sum of n products has n - 1 additions, the bias is
the n-th), nor is drawing random numbers, what happens once per channel and not per image, or
adding up the gradients of a layer that several others read.

============================  ===================================  ==============================
layer                         forward                              backward
============================  ===================================  ==============================
Conv, Dense                   2 per weight and output position     2x forward: gradient of weights
                                                                   and of input
Pool, max                     1 per position read                  1 per output
Pool, average                 1 per position read, 1 per output    the same
ReLU, Dropout                 1 per element                        1 per element
LRN over n channels           n + 4 per element                    n + 5 per element
BatchNorm, training           7 per element                        7 per element
Add of n inputs               n - 1 per element                    0
Concat, Flatten               0                                    0
SoftmaxCrossEntropy           4 per class                          2 per class
============================  ===================================  ==============================

A position read is one inside the image: the windows at ragged edges and over padding count only
what they see. The gradient of ``images`` is never computed, so a layer that reads them has its
weight gradient only. Activations are the outputs of all layers, as if none shared memory;
``Flatten`` is a view in most frameworks and counts as none.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import singledispatch

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

__all__ = ["LayerCost", "NetworkCost", "count"]


@dataclass(frozen=True)
class LayerCost:
    """One layer's cost, for a whole batch; parameters do not depend on the batch."""

    name: str
    kind: str
    output_shape: Shape
    parameters: int
    parameter_bytes: int
    forward_flop: int
    backward_flop: int
    activation_elements: int
    activation_bytes: int


@dataclass(frozen=True)
class NetworkCost:
    """The cost of every layer, in the network's order, and the totals."""

    batch_size: int
    itemsize_bytes: int
    layers: tuple[LayerCost, ...]

    @property
    def parameters(self) -> int:
        return sum(layer.parameters for layer in self.layers)

    @property
    def parameter_bytes(self) -> int:
        return sum(layer.parameter_bytes for layer in self.layers)

    @property
    def forward_flop(self) -> int:
        return sum(layer.forward_flop for layer in self.layers)

    @property
    def backward_flop(self) -> int:
        return sum(layer.backward_flop for layer in self.layers)

    @property
    def activation_elements(self) -> int:
        return sum(layer.activation_elements for layer in self.layers)

    @property
    def activation_bytes(self) -> int:
        return sum(layer.activation_bytes for layer in self.layers)


def count(network: Network, *, batch_size: int = 1, itemsize_bytes: int = 4) -> NetworkCost:
    """Count what one forward and one backward pass over a batch cost.

    Args:
        network: any network.
        batch_size: images in the batch.
        itemsize_bytes: bytes of one number; 4 for float32, 2 for bfloat16.
    """
    layers = []
    for layer in network.layers:
        inputs = network.input_shapes(layer)
        output = network.shapes[layer.name]
        parameters = sum(math.prod(s) for s in layer.parameter_shapes(inputs).values())
        flop = _flop(layer, inputs, output)
        backward = flop.weight_gradient
        if INPUT not in layer.inputs:
            backward += flop.input_gradient
        elements = 0 if isinstance(layer, Flatten) else batch_size * math.prod(output)
        layers.append(
            LayerCost(
                name=layer.name,
                kind=layer.kind,
                output_shape=output,
                parameters=parameters,
                parameter_bytes=parameters * itemsize_bytes,
                forward_flop=batch_size * flop.forward,
                backward_flop=batch_size * backward,
                activation_elements=elements,
                activation_bytes=elements * itemsize_bytes,
            )
        )
    return NetworkCost(batch_size, itemsize_bytes, tuple(layers))


@dataclass(frozen=True)
class _Flop:
    """For one image."""

    forward: int
    input_gradient: int
    weight_gradient: int = 0


@singledispatch
def _flop(layer: Layer, inputs: list[Shape], output: Shape) -> _Flop:
    raise NotImplementedError(f"no cost is known for {layer.kind}")


@_flop.register
def _(layer: Conv, inputs: list[Shape], output: Shape) -> _Flop:
    products = inputs[0][0] // layer.groups * math.prod(layer.kernel) * math.prod(output)
    return _Flop(2 * products, 2 * products, 2 * products)


@_flop.register
def _(layer: Dense, inputs: list[Shape], output: Shape) -> _Flop:
    products = inputs[0][0] * layer.units
    return _Flop(2 * products, 2 * products, 2 * products)


@_flop.register
def _(layer: Pool, inputs: list[Shape], output: Shape) -> _Flop:
    channels, height, width = inputs[0]
    reads = (
        channels
        * _positions_read(layer, height, output[1], axis=0)
        * _positions_read(layer, width, output[2], axis=1)
    )
    elements = math.prod(output)
    if layer.reduction == "max":
        return _Flop(reads, elements)
    return _Flop(reads + elements, reads + elements)


def _positions_read(layer: Pool, size: int, windows: int, *, axis: int) -> int:
    """Positions inside the image that all windows along one axis see together."""
    starts = [i * layer.stride[axis] - layer.padding[axis] for i in range(windows)]
    return sum(min(start + layer.kernel[axis], size) - max(start, 0) for start in starts)


@_flop.register(ReLU)
@_flop.register(Dropout)
def _(layer: Layer, inputs: list[Shape], output: Shape) -> _Flop:
    elements = math.prod(output)
    return _Flop(elements, elements)


@_flop.register
def _(layer: LRN, inputs: list[Shape], output: Shape) -> _Flop:
    # Forward: square, n - 1 additions, times alpha / n, plus k, power, divide. Backward, with
    # the denominator kept: gradient / denominator, two products for the terms of the window,
    # n - 1 additions, two products, one subtraction.
    elements = math.prod(output)
    return _Flop((layer.size + 4) * elements, (layer.size + 5) * elements)


@_flop.register
def _(layer: BatchNorm, inputs: list[Shape], output: Shape) -> _Flop:
    # Forward: sum; subtract the mean, square, sum; normalize, scale, shift. Backward: sums of
    # the gradient and of its product with the normalized input are the gradients of the
    # parameters (3); the input's takes two products and two subtractions more.
    elements = math.prod(output)
    return _Flop(7 * elements, 4 * elements, 3 * elements)


@_flop.register
def _(layer: Add, inputs: list[Shape], output: Shape) -> _Flop:
    return _Flop((len(inputs) - 1) * math.prod(output), 0)


@_flop.register(Concat)
@_flop.register(Flatten)
def _(layer: Layer, inputs: list[Shape], output: Shape) -> _Flop:
    return _Flop(0, 0)


@_flop.register
def _(layer: SoftmaxCrossEntropy, inputs: list[Shape], output: Shape) -> _Flop:
    # Forward: greatest logit, subtract it, exponential, sum. Backward: divide by the sum, and
    # scale; subtracting 1 at the label happens once an image.
    classes = inputs[0][0]
    return _Flop(4 * classes, 2 * classes)
