"""Which layer of a network differs first, once the whole of it does: each seen by itself."""

from __future__ import annotations

from collections.abc import Sequence

from netdyno.networks import Network
from netdyno.networks.graph import Dense, Dropout, Flatten, Layer, SoftmaxCrossEntropy
from netdyno.parity.compare import TensorResult
from netdyno.parity.tolerance import Tolerance

__all__ = ["first_difference", "probed"]

# Few, since the heads of early layers are large. With two, the gradients of two images with unlike
# labels cancel, and rounding errors are all that is left of them.
HEAD_CLASSES = 3
HEAD = "{} probe"
# They give what the layer before them gave.
PASSING_ON = (Flatten, Dropout)


def probed(network: Network) -> Network:
    """``network`` with a small dense head and a loss on every layer, in place of its own losses.

    The gradient of a head's weights is the layer's output seen through it, at full resolution.
    """
    layers: list[Layer] = []
    kept = _kept(network)
    for layer in network.layers:
        if layer.name not in kept:
            continue
        layers.append(layer)
        if isinstance(layer, PASSING_ON):
            continue
        head, reads = HEAD.format(layer.name), layer.name
        if len(network.shapes[layer.name]) == 3:
            reads = f"{head} flat"
            layers.append(Flatten(reads, (layer.name,)))
        layers.append(Dense(head, (reads,), HEAD_CLASSES))
        layers.append(SoftmaxCrossEntropy(f"{head} loss", (head,)))
    return Network(f"{network.name}, every layer", network.input_shape, tuple(layers))


def _kept(network: Network) -> set[str]:
    """All but the losses, and what only passes something on to them: nothing would read it."""
    read: set[str] = set()
    kept: set[str] = set()
    for layer in reversed(network.layers):
        needed = layer.name in read or not isinstance(layer, PASSING_ON)
        if needed and not isinstance(layer, SoftmaxCrossEntropy):
            kept.add(layer.name)
            read.update(layer.inputs)
    return kept


def first_difference(network: Network, found: Sequence[TensorResult], bounds: Tolerance) -> str:
    """From the tensors of ``probed(network)``: ``Pool 'pool1'``, or where the backward pass does.

    ``bounds`` are those of ``network`` itself. Empty if every layer agrees: the difference then
    lies in the loss, or in the update.
    """
    distances = {tensor.name: tensor.relative_l2 for tensor in found}

    def differs(name: str, bound: float) -> bool:
        distance = distances.get(name)
        return name in distances and (distance is None or distance > bound)

    for layer in network.layers:
        if differs(f"gradient/{HEAD.format(layer.name)}.weight", bounds.forward):
            return f"{layer.kind} '{layer.name}'"
    for layer in reversed(network.layers):
        parameters = layer.parameter_shapes(network.input_shapes(layer))
        if any(differs(f"gradient/{layer.name}.{short}", bounds.gradient) for short in parameters):
            return f"the backward pass, at {layer.kind} '{layer.name}' or between it and the next"
    return ""
