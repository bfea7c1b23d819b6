"""``netdyno run`` on real frameworks: one command, one table."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import environment_of

pytestmark = pytest.mark.integration

FRAMEWORKS = ("jax", "mxnet", "pytorch", "tensorflow")


def run(folder: Path, *options: str) -> dict[str, Any]:
    for name in FRAMEWORKS:
        environment_of(name)
    command = [sys.executable, "-m", "netdyno.cli.main", "run", "--json", "--rounds", "1", *options]
    done = subprocess.run(
        [*command, "--out", str(folder)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    data: dict[str, Any] = json.loads(done.stdout)
    return data


def test_four_frameworks_in_one_run(tmp_path: Path) -> None:
    data = run(
        tmp_path / "run",
        "--networks",
        "alexnet_owt:size=96:classes=20",
        "--batch-size",
        "2",
        "--threads",
        "2",
    )
    assert [cell["framework"] for cell in data["cells"]] == list(FRAMEWORKS)
    for cell in data["cells"]:
        assert cell["trials"] == {"ok": 1}
        assert cell["images_per_second"] > 0
        assert cell["of_limit"] > 0
        assert cell["fingerprint"]["threads"]["count"] == 2, cell["framework"]
        assert cell["fingerprint"]["versions"][cell["framework"]]


def test_a_retained_heap_maps_fewer_pages(tmp_path: Path) -> None:
    data = run(
        tmp_path / "run",
        "--no-limits",
        "--frameworks",
        "pytorch",
        "--networks",
        "alexnet_owt",
        "--batch-size",
        "2",
        "--host-allocator",
        "system,retain",
    )
    faults = {cell["host_allocator"]: cell["minor_faults"] for cell in data["cells"]}
    assert faults["retain"] < faults["system"] / 10
