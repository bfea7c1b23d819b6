"""Memory of each cell and phase, beside what the planner says that it could be."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from netdyno.memory import STRATEGIES, lower_bound, plan
from netdyno.memory.measured import Arrays, PhaseMemory, arrays
from netdyno.networks import Network
from netdyno.networks.document import network_from_json
from netdyno.plan.estimate import ITEMSIZE_BYTES
from netdyno.plan.job import MEMORY_PHASES
from netdyno.store.run import Run

__all__ = ["Case", "MemoryRow", "memory_json", "memory_rows", "planned"]

LOWER_BOUND = "lower bound"


@dataclass(frozen=True)
class Case:
    """What the planner works from; ``training``: the phase has a backward pass."""

    network: Network
    batch_size: int
    itemsize_bytes: int
    training: bool


@dataclass(frozen=True)
class MemoryRow:
    """One phase of one cell. ``memory`` is None where it was not measured; ``reason`` says why."""

    cell: Mapping[str, Any]
    phase: str
    memory: PhaseMemory | None
    arrays: Arrays
    case: Case
    verified: bool
    status: str
    reason: str

    @property
    def bytes_per_image(self) -> float | None:
        """Internal memory over the batch size."""
        if self.memory is None or self.memory.internal_bytes is None:
            return None
        return self.memory.internal_bytes / int(self.cell["batch_size"])

    @property
    def other_bytes(self) -> int | None:
        """The rest of the total: context, libraries, caches, and what arrays are there twice."""
        if self.memory is None or self.memory.total_bytes is None:
            return None
        return self.memory.total_bytes - self.arrays.total - (self.memory.internal_bytes or 0)


def memory_rows(run: Run) -> list[MemoryRow]:
    """By cell in the order asked, and by phase; cells without a trial of memory are left out."""
    verification = run.data.get("verification", {})
    rows: list[MemoryRow] = []
    for trial in run.memory_trials:
        cell = run.cells[trial.cell]
        network = network_from_json(run.data["networks"][cell["network"]])
        itemsize = ITEMSIZE_BYTES[cell["precision"]]
        batch_size = int(cell["batch_size"])
        for phase in MEMORY_PHASES:
            if phase not in trial.memory and trial.status == "ok":
                continue  # it was not asked for
            rows.append(
                MemoryRow(
                    cell,
                    phase,
                    trial.memory.get(phase),
                    arrays(network, phase=phase, batch_size=batch_size, itemsize_bytes=itemsize),
                    Case(network, batch_size, itemsize, phase != "forward"),
                    bool(verification.get(trial.cell, {}).get("passed")),
                    trial.status,
                    trial.reason,
                )
            )
    return rows


def planned(case: Case) -> dict[str, int]:
    """Bytes under each strategy of the MXNet paper, and the least that any can do with."""
    network, size, itemsize = case.network, case.batch_size, case.itemsize_bytes
    found: dict[str, int] = {
        strategy: plan(
            network,
            batch_size=size,
            itemsize_bytes=itemsize,
            training=case.training,
            strategy=strategy,
        ).internal_bytes
        for strategy in STRATEGIES
    }
    found[LOWER_BOUND] = lower_bound(
        network, batch_size=size, itemsize_bytes=itemsize, training=case.training
    )
    return found


def memory_json(run: Run) -> dict[str, Any]:
    """What ``--json`` prints: bytes."""
    return {
        "schema": 1,
        "netdyno": run.data["netdyno"],
        "run": run.path.name,
        "status": run.data["status"],
        "started": run.data["started"],
        "host": run.data["host"],
        "cells": [_row_json(row) for row in memory_rows(run)],
    }


def _row_json(row: MemoryRow) -> dict[str, Any]:
    memory = row.memory
    return {
        **row.cell,
        "phase": row.phase,
        "status": row.status,
        "reason": row.reason,
        "verified": row.verified,
        "memory": dataclasses.asdict(memory) if memory else None,
        "internal_bytes": memory.internal_bytes if memory else None,
        "internal_bytes_per_image": row.bytes_per_image,
        "total_bytes": memory.total_bytes if memory else None,
        "arrays_bytes": dataclasses.asdict(row.arrays),
        "other_bytes": row.other_bytes,
        "planned_bytes": planned(row.case),
    }
