"""A row per cell, computed from raw blocks when it is read."""

from __future__ import annotations

import dataclasses
import statistics
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from netdyno.stats.estimate import Estimate, estimate
from netdyno.store.run import Run, Trial

__all__ = ["Row", "summary", "summary_json"]


@dataclass(frozen=True)
class Row:
    """One cell. Times are per iteration of one batch; None where nothing was measured.

    ``backward_seconds`` is the difference of two medians, not a measurement.
    ``verified``: it was held against the reference before it was timed, and passed.
    ``system_share`` and ``minor_faults`` belong to forward+backward: how much of the processor
    time the kernel took, and how many pages it mapped in each iteration.
    """

    cell: Mapping[str, Any]
    forward: Estimate | None
    backward_seconds: float | None
    forward_backward: Estimate | None
    train_step: Estimate | None
    images_per_second: float | None
    first_iteration_seconds: float | None
    minor_faults: float | None
    system_share: float | None
    fingerprint: Mapping[str, Any]
    verified: bool
    trials: Mapping[str, int]
    reason: str

    @property
    def ok(self) -> bool:
        """Whether every trial that was started is good, and there is one."""
        return set(self.trials) == {"ok"}


def summary(run: Run) -> list[Row]:
    """In the order in which cells were asked for."""
    verification = run.data.get("verification", {})
    return [
        _row(cell, run.trials_of(key), bool(verification.get(key, {}).get("passed")))
        for key, cell in run.cells.items()
    ]


def _row(cell: Mapping[str, Any], trials: list[Trial], verified: bool) -> Row:
    # A trial that ended badly may have stopped in mid-phase; what it measured stays in its file.
    good = [trial for trial in trials if trial.status == "ok"]
    estimates = {
        phase: estimate([_seconds(trial, phase) for trial in good])
        for phase in ("forward", "forward_backward", "train_step")
    }
    forward, both = estimates["forward"], estimates["forward_backward"]
    step = estimates["train_step"]
    blocks = [block for trial in good for block in trial.of("forward_backward")]
    iterations = sum(block.iterations for block in blocks)
    system = sum(block.system_seconds for block in blocks)
    busy = system + sum(block.user_seconds for block in blocks)
    firsts = [block.seconds for trial in good for block in trial.of("forward_backward", "first")]
    bad = [trial for trial in trials if trial.status != "ok"]
    return Row(
        cell=cell,
        forward=forward,
        backward_seconds=both.seconds - forward.seconds if both and forward else None,
        forward_backward=both,
        train_step=step,
        images_per_second=cell["batch_size"] / step.seconds if step else None,
        first_iteration_seconds=statistics.median(firsts) if firsts else None,
        minor_faults=sum(b.minor_faults for b in blocks) / iterations if iterations else None,
        system_share=system / busy if busy else None,
        fingerprint=good[0].fingerprint if good else {},
        verified=verified,
        trials=Counter(trial.status for trial in trials),
        reason=bad[0].reason if bad else "",
    )


def _seconds(trial: Trial, phase: str) -> list[float]:
    return [block.seconds_per_iteration for block in trial.of(phase)]


def summary_json(run: Run) -> dict[str, Any]:
    """What ``--json`` prints: units in the names, raw blocks left to the run folder."""
    return {
        "schema": 1,
        "netdyno": run.data["netdyno"],
        "run": run.path.name,
        "status": run.data["status"],
        "started": run.data["started"],
        "host": run.data["host"],
        "cells": [_row_json(row) for row in summary(run)],
    }


def _row_json(row: Row) -> dict[str, Any]:
    data = dataclasses.asdict(dataclasses.replace(row, cell={}, trials={}, fingerprint={}))
    data.update(trials=dict(row.trials), fingerprint=dict(row.fingerprint))
    return {**row.cell, **{key: value for key, value in data.items() if key != "cell"}}
