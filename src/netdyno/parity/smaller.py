"""The same network on smaller images: what double precision is checked on where it would be slow.

Compilers have no fast convolution in double precision on CPU: at 224 x 224, XLA had not finished
vgg_d after twelve minutes on two cores. Its layers do nothing there that they do not do at 96 x 96.
"""

from __future__ import annotations

import dataclasses
import itertools

from netdyno.networks import Network
from netdyno.networks.cost import count
from netdyno.networks.graph import INPUT, Conv, Pool, ShapeError

__all__ = ["smaller"]

# Of one image's forward pass. Up to here a check takes no more than some minutes.
COSTLY_FLOP = 5e9


def smaller(network: Network) -> Network:
    """``network`` on smaller images if one of its own is costly, else ``network`` itself.

    Height and width shrink by multiples of the product of all strides on the way, so that every
    window falls on the same remainder, and ragged edges stay as ragged. Every convolution and pool
    still reads two of its windows in each direction, or as much as it read before.
    """
    if count(network).forward_flop <= COSTLY_FLOP:
        return network
    step = _total_stride(network)
    channels, *sizes = network.input_shape
    found = network
    for taken in itertools.count(1):
        height, width = (size - taken * s for size, s in zip(sizes, step, strict=True))
        if min(height, width) <= 0:
            return found
        try:
            candidate = dataclasses.replace(
                network,
                name=f"{network.name} at {height}x{width}",
                input_shape=(channels, height, width),
            )
        except ShapeError:  # a window no longer fits, as behind a global pool of fixed size
            return found
        if not _reads_enough(candidate, network):
            return found
        found = candidate
    raise AssertionError("sizes run out")


def _total_stride(network: Network) -> tuple[int, int]:
    """Of rows and columns: the largest over all layers of what one step there is in the image."""
    strides = {INPUT: (1, 1)}
    for layer in network.layers:
        down, right = (max(s) for s in zip(*(strides[name] for name in layer.inputs), strict=True))
        if isinstance(layer, Conv | Pool):
            down, right = down * layer.stride[0], right * layer.stride[1]
        strides[layer.name] = (down, right)
    down, right = (max(s) for s in zip(*strides.values(), strict=True))
    return down, right


def _reads_enough(network: Network, original: Network) -> bool:
    for layer in network.layers:
        if isinstance(layer, Conv | Pool):
            (_, *now), (_, *before) = (
                network.input_shapes(layer)[0],
                original.input_shapes(layer)[0],
            )
            if any(n < min(b, 2 * k) for n, b, k in zip(now, before, layer.kernel, strict=True)):
                return False
    return True
