"""What a worker is told: see netdyno_worker/protocol.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from netdyno.plan.cell import Cell
from netdyno.plan.sampling import SAMPLING
from netdyno_worker.protocol import HYPERPARAMETERS

__all__ = ["PHASES", "TIMED", "job"]

# What each phase's timed region holds, in the order in which phases are measured. It stands in
# run.json: figures of another region are never compared with these, so change the words with it.
TIMED = {
    "forward_backward": "forward pass in training mode with its loss; gradients by every "
    "parameter, none by the images",
    "forward": "forward pass in training mode with its loss",
    "train_step": "forward, backward, SGD update with momentum and weight decay of every parameter",
}
PHASES = tuple(TIMED)


def job(
    cell: Cell, seed: int, *, phases: Sequence[str] = PHASES, check_work: bool = False
) -> dict[str, Any]:
    """What the worker is told: see netdyno_worker/protocol.py."""
    return {
        "schema": 1,
        "framework": cell.framework,
        "mode": cell.mode,
        "network": cell.network.to_json(),
        "batch_size": cell.batch_size,
        "device": cell.device,
        "precision": cell.precision,
        "layout": cell.layout,
        "threads": cell.threads,
        "seed": seed,
        "hyperparameters": HYPERPARAMETERS._asdict(),
        "phases": [phase for phase in PHASES if phase in phases],
        "sampling": vars(SAMPLING),
        "check_work": check_work,
    }
