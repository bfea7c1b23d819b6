"""What a worker is told: see netdyno_worker/protocol.py."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from netdyno.plan.cell import Cell
from netdyno.plan.sampling import ON_GPU, SAMPLING
from netdyno_worker.protocol import HYPERPARAMETERS

__all__ = ["MEMORY_OF", "MEMORY_PHASES", "PHASES", "TIMED", "job", "limits_job", "memory_job"]

# What each phase's timed region holds, in the order in which phases are measured. It stands in
# run.json: figures of another region are never compared with these, so change the words with it.
TIMED = {
    "forward_backward": "forward pass in training mode with its loss; gradients by every "
    "parameter, none by the images",
    "forward": "forward pass in training mode with its loss",
    "train_step": "forward, backward, SGD update with momentum and weight decay of every parameter",
}
PHASES = tuple(TIMED)

# The same for trials that measure memory, least first: what a phase leaves in caches is then no
# more than what the next one needs.
MEMORY_OF = {
    "forward": "forward pass in training mode with its loss, of which nothing is kept for a "
    "backward pass",
    "forward_backward": TIMED["forward_backward"],
    "train_step": TIMED["train_step"],
}
# The least first: pools only grow, and what training left there would stand in for what a forward
# pass needs by itself.
MEMORY_PHASES = tuple(MEMORY_OF)


def job(
    cell: Cell,
    seed: int,
    *,
    phases: Sequence[str] = PHASES,
    check_work: bool = False,
    memory_after: bool = False,
    compile_cache: Path | None = None,
    compile_only: bool = False,
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
        "autotune": cell.autotune == "on",
        "threads": cell.threads,
        "seed": seed,
        "hyperparameters": HYPERPARAMETERS._asdict(),
        "phases": [phase for phase in PHASES if phase in phases],
        "sampling": vars(SAMPLING if cell.device == "cpu" else ON_GPU),
        "check_work": check_work,
        "memory_after": memory_after,
        "compile_cache": str(compile_cache) if compile_cache else None,
        "compile_only": compile_only,
    }


def memory_job(
    cell: Cell,
    seed: int,
    *,
    phases: Sequence[str] = MEMORY_PHASES,
    instrument: Path | None = None,
    problem: str = "",
    limit_bytes: int | None = None,
    totals_only: bool = False,
) -> dict[str, Any]:
    """A trial that measures memory and no time; see ``MemoryRequest`` of the worker's protocol."""
    return {
        **job(cell, seed),
        "phases": [phase for phase in MEMORY_PHASES if phase in phases],
        "memory": {
            "instrument": str(instrument) if instrument else None,
            "problem": problem,
            "limit_bytes": limit_bytes,
            "totals_only": totals_only,
        },
    }


def limits_job(cell: Cell, seed: int, precisions: Sequence[str]) -> dict[str, Any]:
    """A trial that measures what the device of ``cell`` can do at most; its network is not run."""
    return {**job(cell, seed, phases=()), "limits": list(precisions)}
