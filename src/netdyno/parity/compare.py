"""What a cell computed, held against the reference, tensor by tensor."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from netdyno.networks import Network
from netdyno.parity.tolerance import Tolerance

__all__ = ["TensorResult", "compare"]

# Elements held in double precision at once: temporaries that fit a cache, however large the tensor.
# What is done with them leaves BLAS alone: it would wake a thread on every core for each chunk, and
# verifications beside it would wait for all those to stop spinning.
CHUNK = 2**17

Arrays = Mapping[str, np.ndarray[Any, Any]]


@dataclass(frozen=True)
class TensorResult:
    """``relative_l2`` is the L2 norm of the difference over that of the reference.

    ``worst_index`` is the element that lies farthest off. ``problem`` says what is wrong when no
    distance can be taken: a shape, a value that is not finite, a tensor that is missing.
    """

    name: str
    relative_l2: float | None
    bound: float
    worst_index: tuple[int, ...] = ()
    worst_found: float | None = None
    worst_expected: float | None = None
    problem: str = ""

    @property
    def passed(self) -> bool:
        return self.relative_l2 is not None and self.relative_l2 <= self.bound


def compare(
    network: Network, found: Arrays, expected: Arrays, tolerance: Tolerance
) -> list[TensorResult]:
    """One result for each tensor, in the order of the forward pass, then of the layers.

    Whatever either side has and the other lacks is a result that does not pass.
    """
    names = sorted(expected.keys() | found.keys(), key=lambda name: _order(network, name))
    return [_tensor(name, found, expected, tolerance.of(name)) for name in names]


def _tensor(name: str, found: Arrays, expected: Arrays, bound: float) -> TensorResult:
    if name not in found or name not in expected:
        side = "computed" if name not in found else "known to the reference"
        return TensorResult(name, None, bound, problem=f"is not {side}")
    own, reference = np.asarray(found[name]), np.asarray(expected[name])
    if own.shape != reference.shape:
        return TensorResult(
            name, None, bound, problem=f"has shape {own.shape}, should be {reference.shape}"
        )
    squares = reference_squares = 0.0
    worst, farthest = 0, -1.0
    for begin in range(0, own.size, CHUNK):
        part = own.reshape(-1)[begin : begin + CHUNK].astype(np.float64)
        reference_part = reference.reshape(-1)[begin : begin + CHUNK].astype(np.float64)
        if not np.isfinite(part).all():
            return TensorResult(name, None, bound, problem="has values that are not finite")
        difference = np.abs(part - reference_part)
        squares += float(np.square(difference).sum())
        reference_squares += float(np.square(reference_part).sum())
        if difference.max() > farthest:
            farthest = float(difference.max())
            worst = begin + int(difference.argmax())
    norm = math.sqrt(reference_squares)
    return TensorResult(
        name,
        math.sqrt(squares) / norm if norm else max(farthest, 0.0),
        bound,
        tuple(int(i) for i in np.unravel_index(worst, own.shape)),
        float(own.reshape(-1)[worst]),
        float(reference.reshape(-1)[worst]),
    )


def _order(network: Network, name: str) -> tuple[int, int, str]:
    groups = ("loss", "logits", "running", "gradient", "losses", "update")
    group, _, rest = name.partition("/")
    layers = {layer.name: index for index, layer in enumerate(network.layers)}
    return groups.index(group), layers.get(rest.rpartition(".")[0], -1), rest
