"""Benchmarks on real frameworks: the loops by hand compute what netdyno does. No time is asserted.

overhead.py itself refuses losses that differ.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.conftest import environment_of

pytestmark = pytest.mark.integration

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


def run(script: str, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, BENCHMARKS / script, *words, "--batch-size", "1"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("network", ["alexnet_owt", "vgg_a"])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("cell", ["pytorch/eager", "jax/jit"])
def test_loops_by_hand(cell: str, precision: str, network: str) -> None:
    environment_of(cell.partition("/")[0])
    axes = ("--network", network, "--precision", precision)
    done = run("overhead.py", cell, *axes, "--blocks", "1", "--processes", "1")
    assert done.returncode in (0, 1), done.stderr  # 1: times that differ
    assert f"{network}, batch 1, {precision}" in done.stdout, done.stderr


def test_where_time_goes() -> None:
    environment_of("pytorch")
    axes = ("--network", "alexnet_owt", "--device", "cpu", "--precision", "fp32")
    words = ("--mode", "eager", "--peak", "1", "--iterations", "1", "--json")
    done = run("where_time_goes.py", *axes, *words)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert {"product", "pooling"} <= {part["class"] for part in found["classes"]}
    shares = [part["share"] for part in (*found["classes"], found["gaps"])]
    assert sum(shares) == pytest.approx(1, abs=0.02)
    assert 0 < found["share_of_peak"]["iteration"] < 1
