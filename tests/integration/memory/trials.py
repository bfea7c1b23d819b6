"""Trials of memory of small networks, on CPU."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from netdyno.environments import Environment
from netdyno.environments.instruments import find_or_install
from netdyno.errors import NetdynoError
from netdyno.networks import Network
from netdyno.plan.job import MEMORY_PHASES, memory_job
from netdyno.redact import Redactor
from netdyno.session import run_trial
from netdyno.settings import load_settings
from tests.integration.conftest import cell, environment_of

PHASES = MEMORY_PHASES


def memory_of(
    folder: Path, name: str, mode: str, network: Network, batch_size: int, *, observe: bool = True
) -> dict[str, dict[str, Any]]:
    """The ``memory`` events of one trial, by phase; with ``observe`` from memray too."""
    subject = dataclasses.replace(cell(name, mode, network), batch_size=batch_size)
    environment = environment_of(name)
    instrument = instrument_of(environment) if observe else None
    data = memory_job(subject, seed=1, instrument=instrument)
    path = folder / f"{name}-{batch_size}.jsonl"
    outcome = run_trial(subject, environment, data, path, timeout_seconds=300, redact=Redactor({}))
    assert outcome.status == "ok", outcome.reason
    events = map(json.loads, path.read_text().splitlines())
    return {event["phase"]: event for event in events if event["event"] == "memory"}


def instrument_of(environment: Environment) -> Path:
    """Skips the test where memray cannot be had."""
    try:
        return find_or_install(environment, load_settings())
    except NetdynoError as error:
        pytest.skip(str(error))
