"""What Torch7's nn cannot express, or does in another way than the neutral network says."""

from __future__ import annotations

from typing import Tuple

from netdyno_worker.adapter import UnsupportedError
from netdyno_worker.network import Layer, Network

__all__ = ["check"]


def check(network: Network, batch_size: int) -> None:
    """Raises UnsupportedError, with the layer's name, for the first that nn lacks."""
    for layer in network.layers:
        reason = ""
        if layer.kind == "Pool":
            reason = _pool(layer, network.shape(layer.inputs[0]))
        elif layer.kind == "LRN" and (layer.size % 2 == 0 or layer.size < 3):
            reason = "Torch7's LRN has odd sizes from 3 on"
        elif layer.kind == "BatchNorm" and batch_size == 1:
            # It normalizes with the running statistics then, though it is training.
            reason = "Torch7 has no batch norm at batch size 1"
        elif layer.kind == "SoftmaxCrossEntropy" and network.shape(layer.inputs[0]) == (1,):
            # CrossEntropyCriterion squeezes its input: the batch would become the classes.
            reason = "Torch7's CrossEntropyCriterion needs two classes"
        if reason:
            raise UnsupportedError("{} (layer '{}')".format(reason, layer.name))


def _pool(layer: Layer, shape: Tuple[int, ...]) -> str:
    if any(p > k // 2 for p, k in zip(layer.padding, layer.kernel)):
        return "Torch7 pads a pool by half its window at most"
    # Without padding it lets a window start outside the image, which is possible where windows
    # are further apart than they are wide.
    for size, k, s, out in zip(shape[1:], layer.kernel, layer.stride, layer.output_shape[1:]):
        windows = -((k - size) // s) + 1
        if layer.ceil_mode and not any(layer.padding) and windows != out:
            return "Torch7 lets this pool start outside the image"
    return ""
