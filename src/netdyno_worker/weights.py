"""The same parameters, images and labels for every framework, from a seed.

The stream is that of Philox 4x64 (Salmon et al., SC'11), a counter-based generator for which
NumPy guarantees that a fixed key always gives the same integers. What NumPy does not guarantee,
and we therefore do ourselves, is how integers become floats. Each array has its own key, so its
values depend on the seed and on its name only, never on what was drawn before it.
"""

from __future__ import annotations

import hashlib
import math
from typing import Dict, Iterator, Mapping, Set, Tuple

import numpy as np

from netdyno_worker.network import INPUT, Network

# Integers drawn at once; even, since each draw of 64 bits gives two. Temporaries that fit a cache
# cost no page faults, which take longer than the drawing.
CHUNK = 2**17


def _generator(seed: int, name: str) -> np.random.Philox:
    """Its stream depends on ``seed`` and ``name`` alone."""
    digest = hashlib.sha256("{}/{}".format(seed, name).encode()).digest()
    return np.random.Philox(key=np.frombuffer(digest[:16], dtype="<u8").astype(np.uint64))


def _draw(generator: np.random.Philox, count: int) -> np.ndarray:
    """``count`` uniform 32-bit integers."""
    words = generator.random_raw((count + 1) // 2)
    return words.astype("<u8", copy=False).view("<u4")[:count]


def _count(shape: Tuple[int, ...]) -> int:
    return int(np.prod(shape, dtype=np.int64))  # math.prod is Python 3.8


def uniform(seed: int, name: str, shape: Tuple[int, ...], low: float, high: float) -> np.ndarray:
    """float32 array, uniform over 2^24 equidistant values in ``[low, high)``.

    24 bits are what a float32 holds exactly, so every precision starts from equal values.
    """
    values = np.empty(_count(shape), np.float32)
    scale, start = np.float32((high - low) / 2**24), np.float32(low)
    # Rounding may reach high itself.
    last = np.nextafter(np.float32(high), start)
    generator = _generator(seed, name)
    for begin in range(0, values.size, CHUNK):
        part = values[begin : begin + CHUNK]
        np.right_shift(_draw(generator, part.size), np.uint32(8), out=part, casting="unsafe")
        part *= scale
        part += start
        np.minimum(part, last, out=part)
    return values.reshape(shape)


class Parameters(Mapping[str, np.ndarray]):
    """float32 parameters by name, in layer order; each is drawn when it is first asked for.

    Weights follow He et al. 2015 (uniform with variance ``2 / fan_in``), which keeps activations
    of rectified networks in range at any depth. Biases are not zero, so that a dropped bias shows.
    The layers that make the logits start ten times smaller: the first loss is then close to
    ``log(classes)``. Batch norms that end a residual branch start five times smaller (Goyal et al.
    2017 start them at zero): fifty layers of branches as large as what they are added to are
    chaotic, and rounding to bfloat16 leaves nothing of their gradient.
    """

    def __init__(self, network: Network, seed: int) -> None:
        self._seed = seed
        self._drawn: Dict[str, np.ndarray] = {}
        branches = _residual_branches(network)
        self._ranges: Dict[str, Tuple[Tuple[int, ...], float, float]] = {}
        logits = {
            name
            for layer in network.layers
            if layer.kind == "SoftmaxCrossEntropy"
            for name in layer.inputs
        }
        for layer in network.layers:
            for short, shape in layer.parameters.items():
                if layer.kind == "BatchNorm" and short == "weight":
                    low, high = (0.1, 0.3) if layer.name in branches else (0.5, 1.5)
                elif short == "weight":
                    high = math.sqrt(6.0 / _count(shape[1:]))
                    high *= 0.1 if layer.name in logits else 1.0
                    low = -high
                else:
                    low, high = -0.02, 0.02
                self._ranges[layer.name + "." + short] = (shape, low, high)

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self._drawn:
            self._drawn[name] = uniform(self._seed, name, *self._ranges[name])
        return self._drawn[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._ranges)

    def __len__(self) -> int:
        return len(self._ranges)


def _residual_branches(network: Network) -> Set[str]:
    """Of each sum the term with the most layers before it; shortcuts have fewer."""
    depth = {INPUT: 0}
    found = set()
    for layer in network.layers:
        depth[layer.name] = 1 + max(depth[name] for name in layer.inputs)
        if layer.kind == "Add":
            found.add(max(layer.inputs, key=depth.__getitem__))
    return found


def batch(
    network: Network, batch_size: int, seed: int, image_scale: float = 0.02
) -> Tuple[np.ndarray, np.ndarray]:
    """float32 images ``(N, C, H, W)`` in [-image_scale, image_scale) and int32 labels ``(N,)``.

    Small images by default, for the sake of the train step: one batch of noise, learnt again and
    again at the seed's learning rate, makes any network without batch norm diverge. From these
    images every network of the zoo stays finite for 6 steps at least, down to batch size 2; the
    worker starts anew before that (trial.py).
    """
    shape = (batch_size,) + network.input_shape
    images = uniform(seed, "images", shape, -image_scale, image_scale)
    drawn = _draw(_generator(seed, "labels"), batch_size)
    # The bias of a remainder is below classes / 2^32: no matter for labels.
    return images, (drawn % np.uint32(network.classes)).astype(np.int32)
