"""How much one trial measures: what the worker's loop is told (see netdyno_worker/loop.py)."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ON_GPU", "SAMPLING", "Sampling"]


@dataclass(frozen=True)
class Sampling:
    """A phase ends after ``min_samples`` blocks and ``phase_seconds``, or when it is quiet.

    ``min_block_seconds``: 2 ms against a clock of some 50 ns keeps its share below 1e-4.
    ``least_seconds``: a trial's first phase takes so long even if it is quiet, and the others
    ``later_least_seconds``.
    """

    min_samples: int = 3
    max_samples: int = 50
    phase_seconds: float = 2.0
    min_block_seconds: float = 0.002
    max_warmup_iterations: int = 10
    least_seconds: float = 0.0
    later_least_seconds: float = 0.0


SAMPLING = Sampling()
# A quiet GPU would be done within ten milliseconds: too short for its clock to settle under the
# load, and for the counter of its energy, which moves some ten times a second. Energy is told of
# the first phase.
ON_GPU = Sampling(
    max_samples=1000,
    phase_seconds=1.5,
    min_block_seconds=0.01,
    least_seconds=1.5,
    later_least_seconds=0.5,
)
