"""Geometry of pooling, for frameworks that have neither ceil mode nor our way of averaging."""

from __future__ import annotations

from typing import Any, List, Sequence, Tuple

import numpy as np

from netdyno_worker.network import Layer


def explicit_padding(layer: Layer, sizes: Sequence[int]) -> List[Tuple[int, int]]:
    """``(before, after)`` of height and width; right and bottom make up what ceil_mode adds.

    ``sizes`` are the input's height and width.
    """
    return [
        (p, max(p, (out - 1) * s + k - size - p))
        for p, out, s, k, size in zip(
            layer.padding, layer.output_shape[1:], layer.stride, layer.kernel, sizes
        )
    ]


def average_counts(layer: Layer, sizes: Sequence[int]) -> Any:
    """``(height, width)`` array: how many positions the average at each output counts."""
    counts = []
    for axis in (0, 1):
        padding = layer.padding[axis]
        outside = padding if layer.count_padding else 0
        start = np.arange(layer.output_shape[1 + axis]) * layer.stride[axis] - padding
        stop = np.minimum(start + layer.kernel[axis], sizes[axis] + outside)
        counts.append(stop - np.maximum(start, -outside))
    return np.outer(*counts)
