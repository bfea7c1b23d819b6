"""Trials of memory of small networks, on CPU."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from netdyno.environments.instruments import find_or_install
from netdyno.networks import Network
from netdyno.plan.job import job
from netdyno.redact import Redactor
from netdyno.session import run_trial
from netdyno.settings import load_settings
from tests.integration.conftest import cell, environment_of

PHASES = ("forward", "forward_backward", "train_step")


def memory_of(
    folder: Path, name: str, mode: str, network: Network, batch_size: int, *, observe: bool = True
) -> dict[str, dict[str, Any]]:
    """The ``memory`` events of one trial, by phase; with ``observe`` from memray too."""
    subject = dataclasses.replace(cell(name, mode, network), batch_size=batch_size)
    environment = environment_of(name)
    instrument = str(find_or_install(environment, load_settings())) if observe else None
    memory = {"instrument": instrument, "problem": "", "limit_bytes": None}
    data = {**job(subject, seed=1), "phases": list(PHASES), "memory": memory}
    path = folder / f"{name}-{batch_size}.jsonl"
    outcome = run_trial(subject, environment, data, path, timeout_seconds=300, redact=Redactor({}))
    assert outcome.status == "ok", outcome.reason
    events = map(json.loads, path.read_text().splitlines())
    return {event["phase"]: event for event in events if event["event"] == "memory"}
