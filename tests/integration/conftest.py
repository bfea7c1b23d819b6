"""Runs cells of real frameworks in their environments; skips, with the reason, what is absent."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from netdyno.environments import Environment, find
from netdyno.errors import NetdynoError
from netdyno.frameworks import framework
from netdyno.launch import local
from netdyno.networks import Network
from netdyno.plan.cell import Cell
from netdyno.runner import job
from netdyno.settings import load_settings
from netdyno_worker import compute

Arrays = dict[str, np.ndarray]


def environment_of(name: str) -> Environment:
    """Skips the test where the framework has no usable environment."""
    try:
        return find(framework(name), load_settings())
    except NetdynoError as error:
        pytest.skip(str(error))


@pytest.fixture
def compute_cell(tmp_path: Path) -> Callable[..., Arrays]:
    """A function that returns what one cell computes: see netdyno_worker/compute.py."""

    def run(
        network: Network,
        framework_name: str,
        mode: str,
        precision: str = "fp32",
        layout: str = "",
        batch_size: int = 4,
    ) -> Arrays:
        environment = environment_of(framework_name)
        layout = layout or framework(framework_name).modes[mode].layouts[0]
        cell = Cell(
            framework_name,
            mode,
            network.name,
            network,
            batch_size,
            precision,
            layout,
            "cpu",
            2,
            "system",
        )
        results = tmp_path / "results.npz"
        events = tmp_path / "events.jsonl"
        data = {**job(cell, seed=7), "results": str(results), "scratch": str(tmp_path)}
        (tmp_path / "job.json").write_text(json.dumps(data))
        done = subprocess.run(
            local.command(environment, tmp_path / "job.json", events),
            env=local.environ(environment, cell, tmp_path),
            capture_output=True,
            text=True,
            check=False,
        )
        last = json.loads(events.read_text().splitlines()[-1])
        assert last["event"] == "finished", f"{cell.key}: {last}\n{done.stderr[-2000:]}"
        return compute.read(str(results))

    return run
