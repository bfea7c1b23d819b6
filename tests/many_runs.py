"""Run folders as netdyno writes them, one after another in time, with times that are given."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

from netdyno.outcome import Outcome, Status
from netdyno.plan.cell import Cell
from netdyno.plan.request import Request
from netdyno.store.run_folder import RunFolder

__all__ = ["HOST", "block", "write_measured_run"]

HOST: Mapping[str, Any] = {"machine": "x86_64", "cpu": {"model": "Abacus 9", "logical_cores": 4}}


def block(
    seconds: float, *, phase: str = "forward_backward", kind: str = "sample", iterations: int = 2
) -> dict[str, Any]:
    """``seconds`` are those of one iteration."""
    return {
        "event": "block",
        "phase": phase,
        "kind": kind,
        "iterations": iterations,
        "seconds": seconds * iterations,
        "user_seconds": 0.0,
        "system_seconds": 0.0,
        "minor_faults": 0,
        "major_faults": 0,
    }


def write_measured_run(
    path: Path,
    started: str,
    times: Sequence[tuple[Cell, Sequence[float]]],
    *,
    versions: Mapping[str, str] | None = None,
    host: Mapping[str, Any] = HOST,
    status: Status = "ok",
    verified: bool = True,
) -> Path:
    """``times``: the median seconds per iteration of each round of a cell."""
    with patch("netdyno.store.run_folder.now", return_value=started):
        folder = RunFolder(path)
        folder.begin(Request(), [cell for cell, _ in times], host)
        for cell, _ in times:
            folder.verified(cell.key, {"passed": verified, "reason": "", "created": ""})
        for cell, rounds in times:
            for number, seconds in enumerate(rounds, start=1):
                events = [
                    block(50 * seconds, kind="first"),
                    block(3 * seconds, kind="warmup"),
                    block(seconds * 0.99),
                    block(seconds),
                    block(seconds * 9),
                    block(seconds / 4, phase="forward"),
                    {"event": "fingerprint", "versions": dict(versions or {"null": "1"})},
                ]
                trial = folder.new_trial(cell, number)
                with trial.open("a") as file:
                    file.writelines(json.dumps(event) + "\n" for event in events)
                folder.end_trial(trial, Outcome(status, "" if status == "ok" else "it failed"))
        folder.end("complete")
    return path
