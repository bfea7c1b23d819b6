"""A run whose every figure can be worked out in one's head."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from netdyno.plan.cell import Cell
from netdyno.store.run import Run, read_run


def block(phase: str, milliseconds: float, *, kind: str = "sample", iterations: int = 1) -> Any:
    """``milliseconds`` an iteration; a quarter of the processor's time is the kernel's."""
    seconds = milliseconds * iterations / 1e3
    return {
        "event": "block",
        "phase": phase,
        "kind": kind,
        "iterations": iterations,
        "seconds": seconds,
        "user_seconds": seconds * 1.5,
        "system_seconds": seconds * 0.5,
        "minor_faults": 100 * iterations,
        "major_faults": 0,
    }


def measured(forward: float, both: float, step: float) -> list[Any]:
    """A trial's blocks: a slow first iteration, a warm-up, and three samples around the figure."""
    events = []
    for phase, figure in (("forward_backward", both), ("forward", forward), ("train_step", step)):
        events += [
            block(phase, 50 * figure, kind="first"),
            block(phase, 3 * figure, kind="warmup"),
            block(phase, figure - 1, iterations=2),
            block(phase, figure, iterations=2),
            block(phase, 9 * figure, iterations=2),  # disturbed
        ]
    return events


def trial(cell: str, number: int, events: list[Any], status: str = "ok", reason: str = "") -> Any:
    told = {
        "event": "fingerprint",
        "versions": {"null": "1", "blas": "0.3"},
        "notes": ["drew its own masks"],
    }
    return [
        {"event": "trial", "schema": 1, "cell": cell, "round": number, "started": "now"},
        *events,
        *([told] if status == "ok" else []),
        {"event": "outcome", "status": status, "reason": reason, "seconds": 1.0},
    ]


@pytest.fixture
def good(make_cell: Callable[..., Cell]) -> dict[str, Any]:
    return make_cell(batch_size=4).to_json()


@pytest.fixture
def bad(make_cell: Callable[..., Cell]) -> dict[str, Any]:
    return make_cell(mode="hang", batch_size=4).to_json()


@pytest.fixture
def never(make_cell: Callable[..., Cell]) -> dict[str, Any]:
    return make_cell(mode="drift", batch_size=4).to_json()


@pytest.fixture
def run(
    write_run: Callable[..., Path],
    good: dict[str, Any],
    bad: dict[str, Any],
    never: dict[str, Any],
) -> Run:
    """Three cells: one measured well in three of four trials, one that failed, one not begun."""
    key, failing = good["key"], bad["key"]
    folder = write_run(
        [good, bad, never],
        {
            "0001": trial(key, 1, measured(10, 40, 50)),
            "0002": trial(key, 2, measured(12, 44, 40)),
            "0003": trial(key, 3, measured(14, 42, 45)),
            "0004": trial(key, 4, measured(1, 1, 1), "timed_out", "still running after 9 s"),
            "0005": trial(failing, 1, measured(2, 5, 9)[:8], "failed", "RuntimeError: [red]no[/]"),
            "0006": trial(failing, 2, [], "out_of_memory", "MemoryError: none left"),
        },
        status="budget",
    )
    return read_run(folder)
