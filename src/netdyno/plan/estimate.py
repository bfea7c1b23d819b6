"""What a run will take, roughly, before anything has been measured."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from netdyno.frameworks import framework
from netdyno.networks.cost import count
from netdyno.plan.cell import Cell
from netdyno.plan.job import PHASES
from netdyno.plan.sampling import SAMPLING

__all__ = ["CellEstimate", "estimate_cell"]

# Of an activation.
ITEMSIZE_BYTES = {"fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2, "fp64": 8}
# What a framework's libraries take before the network is built; 0.3 to 0.7 GB were seen.
FRAMEWORK_BYTES = 5 * 10**8
# Share of the matrix-product rate that whole convnets reached in trials; between 0.3 and 0.8.
EFFICIENCY = 0.5
# Of an H200 or an A100 nobody knows which one it is before it is asked; a low guess.
GPU_FLOP_PER_SECOND = 10e12
# The first iteration, one warm-up at least, and the samples.
FEWEST_ITERATIONS = 2 + SAMPLING.min_samples


@dataclass(frozen=True)
class CellEstimate:
    """``seconds`` of one trial and peak ``memory_bytes`` of its process; both rough."""

    seconds: float
    memory_bytes: int


def estimate_cell(cell: Cell, phases: Sequence[str] = PHASES) -> CellEstimate:
    """From the network's FLOP and bytes, and the speed of a matrix product measured now."""
    itemsize = ITEMSIZE_BYTES[cell.precision]
    cost = count(cell.network, batch_size=cell.batch_size, itemsize_bytes=itemsize)
    spec = framework(cell.framework)
    forward = both = 0.0
    if spec.verifiable:  # others compute nothing
        rate = _flop_per_second() * (4 / itemsize) if cell.device == "cpu" else GPU_FLOP_PER_SECOND
        forward = cost.forward_flop / (EFFICIENCY * rate)
        both = forward + cost.backward_flop / (EFFICIENCY * rate)
    seconds = spec.startup_seconds + len(phases) * spec.mode(cell.mode).first_iteration_seconds
    for phase in phases:
        iteration = forward if phase == "forward" else both
        seconds += max(FEWEST_ITERATIONS * iteration, SAMPLING.phase_seconds)
    # Weights, gradients and momentum; activations and their gradients.
    arrays = 3 * cost.parameter_bytes + 2 * cost.activation_bytes
    return CellEstimate(seconds, FRAMEWORK_BYTES + arrays)


@cache
def _flop_per_second() -> float:
    """Of a float32 matrix product on all cores, best of three."""
    import numpy as np  # a tenth of a second, and no other part of planning needs it

    size = 512
    matrix = np.ones((size, size), np.float32)
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        matrix @ matrix
        best = min(best, time.perf_counter() - start)
    return 2 * size**3 / best
