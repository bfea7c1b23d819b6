"""What a worker is told: see netdyno_worker/protocol.py."""

from __future__ import annotations

from typing import Any

from netdyno.plan.cell import Cell
from netdyno.plan.sampling import SAMPLING
from netdyno_worker.protocol import HYPERPARAMETERS

__all__ = ["job"]

PHASES = ("forward_backward", "forward", "train_step")


def job(cell: Cell, seed: int, *, check_work: bool = False) -> dict[str, Any]:
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
        "phases": PHASES,
        "sampling": vars(SAMPLING),
        "check_work": check_work,
    }
