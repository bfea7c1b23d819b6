"""Energy of an image, from the counter of a GPU's board."""

from __future__ import annotations

from collections.abc import Sequence

from netdyno.plan.request import PRIMARY_PHASE
from netdyno.stats.quantity import Quantity, quantity
from netdyno.store.trial import Trial

__all__ = ["energy"]

# The counter moves some ten times a second: over less, its steps are a tenth of what it tells.
SHORTEST_SECONDS = 1.0


def energy(trials: Sequence[Trial], batch_size: int, phase: str = PRIMARY_PHASE) -> Quantity | None:
    """Joules for each image of ``phase``, all of the board's; None where no trial tells.

    Of each trial's samples together, from the end of its warm-up on: stretches have no gaps, so the
    counter's coarse steps add up to the whole. (Between blocks of train steps, parameters are put
    back to their start, whose energy would be counted: see the worker's trial.py.)
    """
    found = [_of(trial, batch_size, phase) for trial in trials]
    return quantity([joules for joules in found if joules])


def _of(trial: Trial, batch_size: int, phase: str) -> float | None:
    blocks = [b for b in trial.undisturbed(phase) if b.energy_joules is not None]
    seconds = sum(block.stretch_seconds or 0 for block in blocks)
    if seconds < SHORTEST_SECONDS:
        return None
    images = batch_size * sum(block.iterations for block in blocks)
    return sum(block.energy_joules or 0 for block in blocks) / images
