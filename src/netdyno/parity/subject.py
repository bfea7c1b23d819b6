"""Runs a cell's checks in its environment, and the reference's beside it."""

from __future__ import annotations

import dataclasses
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from netdyno.environments import Environment
from netdyno.networks import Network
from netdyno.outcome import Outcome
from netdyno.parity.conditions import HYPERPARAMETERS, SEED
from netdyno.plan.cell import Cell
from netdyno.plan.job import job
from netdyno.redact import Redactor
from netdyno.session import run_trial
from netdyno_worker.compute import read

__all__ = ["Check", "Computed", "compute"]

TIMEOUT_SECONDS = 900.0

Arrays = dict[str, np.ndarray[Any, Any]]


@dataclass(frozen=True)
class Check:
    """One network to be computed: see ``Check`` of netdyno_worker/protocol.py."""

    name: str
    network: Network
    batch_size: int
    image_scale: float
    train_steps: int
    input_gradient: bool = False


@dataclass(frozen=True)
class Computed:
    """What came of it, by name of the check.

    ``outcomes`` has every check; ``arrays`` those whose outcome is good.
    """

    arrays: Mapping[str, Arrays]
    outcomes: Mapping[str, Outcome]


def compute(
    cell: Cell,
    environment: Environment,
    checks: Sequence[Check],
    redact: Redactor,
    stopped: threading.Event | None = None,
) -> Computed:
    """Compute ``checks`` in one fresh process of ``cell``'s framework, mode and precision.

    What a crash prevented is tried again, each check in a process of its own. ``stopped``: see
    ``run_trial``.
    """
    outcomes: dict[str, Outcome] = {}

    def listen(event: dict[str, Any]) -> None:
        if event.get("event") == "check":
            reason, seconds = redact(event["reason"]), float(event["seconds"])
            outcomes[event["name"]] = Outcome(event["status"], reason, seconds)

    with tempfile.TemporaryDirectory(prefix="netdyno-parity-") as folder:
        paths = [Path(folder) / str(index) for index in range(len(checks))]
        data = job(cell, SEED)
        data["hyperparameters"] = HYPERPARAMETERS
        data["checks"] = [
            {**dataclasses.asdict(check), "network": check.network.to_json(), "results": str(path)}
            for check, path in zip(checks, paths, strict=True)
        ]
        outcome = run_trial(
            cell,
            environment,
            data,
            Path(folder) / "events.jsonl",
            timeout_seconds=TIMEOUT_SECONDS,
            redact=redact,
            listener=listen,
            stopped=stopped,
        )
        arrays = {
            check.name: read(str(path))
            for check, path in zip(checks, paths, strict=True)
            if outcomes.get(check.name, outcome).status == "ok"
        }
    for check in checks:
        if check.name in outcomes:
            continue
        if len(checks) == 1:
            return Computed({}, {check.name: outcome})
        alone = compute(cell, environment, [check], redact, stopped)
        arrays.update(alone.arrays)
        outcomes.update(alone.outcomes)
    return Computed(arrays, outcomes)
