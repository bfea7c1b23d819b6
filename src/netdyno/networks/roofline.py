"""The least time that a network can take on a device: the roofline model, layer by layer.

A layer takes no less than its FLOP over the device's rate of products, and no less than the bytes
that it must read and write over the device's bandwidth (Williams, Waterman & Patterson 2009,
doi:10.1145/1498765.1498785). Counted are ``Conv`` and ``Dense``, whose three passes are

===================  ==================================  ===============
pass                 reads                               writes
===================  ==================================  ===============
forward              input, weight, bias                 output
gradient of weights  input, gradient of the output       those of weight
                                                         and bias
gradient of input    gradient of the output, weight      that of input
===================  ==================================  ===============

each array once, of a forward pass's input only the positions that a window sees. Every other layer
counts nothing: it can be fused with the one before or after it, so that its arrays never leave the
chip. Nor does a gradient that no parameter needs, such as the one by the images. A train step adds
the update: parameters, gradients and momenta are read, parameters and momenta written.

FLOP are those of direct convolution. Winograd's and Fourier's algorithms need fewer products, and
arrays that stay in a cache are not bound by memory: both can be faster than what this says.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from netdyno.networks.cost import count
from netdyno.networks.graph import Conv, Dense, Layer, Network

__all__ = ["Ceilings", "LayerWork", "NetworkWork", "Work", "work"]

# Of the update: parameters, gradients, momenta are read; parameters and momenta are written.
UPDATE_ARRAYS = 5


@dataclass(frozen=True)
class Ceilings:
    """What a device can do at most: in products of matrices, and in memory."""

    flop_per_second: float
    bytes_per_second: float


@dataclass(frozen=True)
class Work:
    """What must be computed, and what must be read and written."""

    flop: int = 0
    bytes: int = 0

    def seconds(self, ceilings: Ceilings) -> float:
        return max(self.flop / ceilings.flop_per_second, self.bytes / ceilings.bytes_per_second)

    def is_bound_by_memory(self, ceilings: Ceilings) -> bool:
        return self.seconds(ceilings) > self.flop / ceilings.flop_per_second


@dataclass(frozen=True)
class LayerWork:
    """One ``Conv`` or ``Dense``, for a whole batch. ``input_gradient``: None if nobody needs it."""

    name: str
    kind: str
    forward: Work
    weight_gradient: Work
    input_gradient: Work | None

    def passes(self, phase: str) -> Iterator[Work]:
        """Those of ``phase``, one of netdyno_worker.protocol.PHASES."""
        yield self.forward
        if phase != "forward":
            yield self.weight_gradient
            if self.input_gradient:
                yield self.input_gradient

    def seconds(self, phase: str, ceilings: Ceilings) -> float:
        return sum(part.seconds(ceilings) for part in self.passes(phase))


@dataclass(frozen=True)
class NetworkWork:
    """Of every ``Conv`` and ``Dense``, in the network's order; ``update``: of a train step."""

    layers: tuple[LayerWork, ...]
    update: Work

    def flop(self, phase: str) -> int:
        return sum(part.flop for layer in self.layers for part in layer.passes(phase))

    def seconds(self, phase: str, ceilings: Ceilings) -> float:
        """The least that ``phase`` can take."""
        layers = sum(layer.seconds(phase, ceilings) for layer in self.layers)
        return layers + (self.update.seconds(ceilings) if phase == "train_step" else 0.0)


def work(
    network: Network,
    *,
    batch_size: int,
    itemsize_bytes: int = 4,
    parameter_itemsize_bytes: int | None = None,
) -> NetworkWork:
    """What one iteration must do.

    Args:
        network: any network.
        batch_size: images in the batch.
        itemsize_bytes: of what the layers read and write: 2 in mixed precision.
        parameter_itemsize_bytes: of what the update reads and writes, where that is another.
    """
    trained = _trained(network)
    layers = tuple(
        _layer_work(layer, network, batch_size, itemsize_bytes, layer.inputs[0] in trained)
        for layer in network.layers
        if isinstance(layer, Conv | Dense)
    )
    parameters = count(network, itemsize_bytes=1).parameters
    itemsize = parameter_itemsize_bytes or itemsize_bytes
    return NetworkWork(layers, Work(bytes=UPDATE_ARRAYS * parameters * itemsize))


def _trained(network: Network) -> set[str]:
    """The values that depend on a parameter: only their gradients are needed."""
    found: set[str] = set()
    for layer in network.layers:
        has_own = bool(layer.parameter_shapes(network.input_shapes(layer)))
        if has_own or found.intersection(layer.inputs):
            found.add(layer.name)
    return found


def _layer_work(
    layer: Conv | Dense, network: Network, batch_size: int, itemsize: int, needs_input: bool
) -> LayerWork:
    inputs, output = network.input_shapes(layer), network.shapes[layer.name]
    shapes = layer.parameter_shapes(inputs)
    weight = math.prod(shapes["weight"])
    # A weight of a convolution is used at every output position, one of a dense layer once.
    flop = 2 * batch_size * weight * math.prod(output[1:])
    parameters = sum(math.prod(shape) for shape in shapes.values())
    whole, result = batch_size * math.prod(inputs[0]), batch_size * math.prod(output)
    seen = batch_size * _positions_seen(layer, inputs[0], output)
    forward = Work(flop, itemsize * (seen + parameters + result))
    backward = Work(flop, itemsize * (whole + weight + result))
    # Writing its weights' gradient is reading its weights, as far as bytes go.
    return LayerWork(layer.name, layer.kind, forward, forward, backward if needs_input else None)


def _positions_seen(layer: Layer, read: tuple[int, ...], output: tuple[int, ...]) -> int:
    """Numbers of one image that some window sees: a 1x1 convolution of stride 2 skips most."""
    if not isinstance(layer, Conv):
        return math.prod(read)
    rows, columns = (_seen(layer, read[axis + 1], output[axis + 1], axis) for axis in (0, 1))
    return read[0] * rows * columns


def _seen(layer: Conv, size: int, windows: int, axis: int) -> int:
    starts = (index * layer.stride[axis] - layer.padding[axis] for index in range(windows))
    seen = {start + offset for start in starts for offset in range(layer.kernel[axis])}
    return len(seen.intersection(range(size)))
