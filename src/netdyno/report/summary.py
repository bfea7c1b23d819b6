"""A row per cell, computed from raw blocks when it is read."""

from __future__ import annotations

import dataclasses
import statistics
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from netdyno.device_limits import limits_from_json
from netdyno.plan.request import PRIMARY_PHASE
from netdyno.report.advice import advice
from netdyno.report.energy import energy
from netdyno.report.limits import cell_limit
from netdyno.report.ranking import Place, places
from netdyno.stats.block import Block
from netdyno.stats.estimate import Estimate, estimate
from netdyno.stats.quantity import Quantity
from netdyno.store.run import Run

__all__ = ["Row", "summary", "summary_json"]


@dataclass(frozen=True)
class Row:
    """One cell. Times are per iteration of one batch; None where nothing was measured.

    ``backward_seconds`` is the difference of two medians, not a measurement.
    ``verified``: it was held against the reference before it was timed, and passed.
    ``system_share`` and ``minor_faults`` belong to forward+backward: how much of the processor
    time the kernel took, and how many pages it mapped in each iteration.
    ``internal_bytes`` and ``total_bytes``: memory of forward+backward, from a trial of its own.
    ``limit_seconds``: by phase, the least that an iteration could take on this device, whose limits
    were measured in the same run; ``of_limit`` that over what forward+backward took, and
    ``flop_per_second`` what it reached in convolutions and dense layers (networks/roofline.py).
    ``joules_per_image`` of the GPU's board, and ``device_seconds`` by the device's own events, are
    those of forward+backward. ``disturbed``: blocks of all phases that are left out, by reason.
    ``place``: where the cell stands among those it may be ranked with. ``advice``: what to mind,
    and what to do about it.
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
    internal_bytes: int | None
    total_bytes: int | None
    joules_per_image: Quantity | None
    device_seconds: float | None
    limit_seconds: Mapping[str, float] | None
    of_limit: float | None
    flop_per_second: float | None
    disturbed: Mapping[str, int]
    place: Place
    advice: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether every trial that was started is good, and there is one."""
        return set(self.trials) == {"ok"}


def summary(run: Run, *, strict: bool = False) -> list[Row]:
    """In the order in which cells were asked for. ``strict``: rank only what is like for like."""
    verification = run.data.get("verification", {})
    place = places(run, strict=strict)
    return [
        _row(run, cell, bool(verification.get(key, {}).get("passed")), place[key])
        for key, cell in run.cells.items()
    ]


def _row(run: Run, cell: Mapping[str, Any], verified: bool, place: Place) -> Row:
    key = cell["key"]
    trials, good = run.trials_of(key), run.good_trials_of(key)
    forward, both, step = (
        estimate(list(run.seconds(key, phase).values()))
        for phase in ("forward", "forward_backward", "train_step")
    )
    blocks = [block for trial in good for block in trial.of("forward_backward")]
    iterations = sum(block.iterations for block in blocks)
    system = sum(block.system_seconds for block in blocks)
    busy = system + sum(block.user_seconds for block in blocks)
    firsts = [block.seconds for trial in good for block in trial.of("forward_backward", "first")]
    if key in run.data.get("compiled_ahead", ()):
        firsts = []  # they load what was compiled before: no cost that anybody asks for
    of_memory = [trial for trial in run.memory_trials if trial.cell == key]
    of_both = [*trials, *(trial for trial in of_memory if trial.measures == "memory")]
    bad = [trial for trial in of_both if trial.status != "ok"]
    limit = cell_limit(run, cell)
    memory = of_memory[-1].memory.get("forward_backward") if of_memory else None
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
        internal_bytes=memory.internal_bytes if memory else None,
        total_bytes=memory.total_bytes if memory else None,
        joules_per_image=energy(good, int(cell["batch_size"])),
        device_seconds=_device_seconds(blocks),
        limit_seconds=limit.seconds if limit else None,
        of_limit=limit.seconds[PRIMARY_PHASE] / both.seconds if limit and both else None,
        flop_per_second=limit.flop[PRIMARY_PHASE] / both.seconds if limit and both else None,
        disturbed=run.disturbed(key),
        place=place,
        advice=tuple(advice(run, key)),
    )


def _device_seconds(blocks: list[Block]) -> float | None:
    """Median over samples, per iteration."""
    told = [b.device_seconds / b.iterations for b in blocks if b.device_seconds is not None]
    return statistics.median(told) if told else None


def summary_json(run: Run, *, strict: bool = False) -> dict[str, Any]:
    """What ``--json`` prints: units in the names, raw blocks left to the run folder."""
    return {
        "schema": 2,
        "netdyno": run.data["netdyno"],
        "run": run.path.name,
        "status": run.data["status"],
        "started": run.data["started"],
        "host": run.data["host"],
        "search": run.data.get("search", []),
        "limits": [limits.to_json() for limits in limits_from_json(run.data.get("limits"))],
        "cells": [_row_json(row) for row in summary(run, strict=strict)],
    }


def _row_json(row: Row) -> dict[str, Any]:
    data = dataclasses.asdict(dataclasses.replace(row, cell={}, trials={}, fingerprint={}))
    data.update(trials=dict(row.trials), fingerprint=dict(row.fingerprint))
    return {**row.cell, **{key: value for key, value in data.items() if key != "cell"}}
