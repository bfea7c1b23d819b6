"""A real Torch7: set NETDYNO_TORCH7 to run these."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from netdyno.launch import local
from netdyno.networks import Network
from netdyno.networks.builder import Builder
from netdyno.parity.verify import Verifier
from netdyno.plan.job import job
from tests.integration.conftest import cell, environment_of
from tests.small_network import small_network

pytestmark = pytest.mark.integration

T = TypeVar("T")


def entangled() -> Network:
    """Where overwriting in place could go wrong, and what the small network leaves out.

    Groups right on the images; a rectified layer that is added to another, and read twice; sums of
    sums; a layer added to itself; dropout at rate 0; two losses of the same logits.
    """
    net = Builder((4, 12, 12))
    # No bias before a batch norm, which takes it out: its gradient is nothing but rounding.
    net.conv("grouped", 8, 3, padding=1, groups=2, bias=False)
    net.batch_norm()
    trunk = net.relu()
    net.conv("a", 8, 3, padding=1, bias=False)
    net.batch_norm()
    left = net.relu()
    right = net.conv("b", 8, 3, padding=1, reads=trunk)
    net.add_together("sum", [left, right])
    first = net.relu()
    net.conv("c", 8, 1, bias=False)
    inner = net.batch_norm()
    net.add_together("residual", [first, inner])
    second = net.relu()
    other = net.conv("d", 8, 1, reads=first)
    third = net.conv("e", 8, 1, reads=second)
    net.add_together("three", [second, other, third])
    doubled = net.add_together("doubled", ["three", "three"])
    net.concat("all", [doubled, trunk, second])
    net.dropout(0.0)
    net.pool("down", "max", 3, 2, padding=1, ceil_mode=True)
    net.flatten()
    net.dense("logits", 5)
    net.loss("one", weight=0.5)
    net.last = "logits"
    net.loss("two", weight=0.25)
    return net.network("entangled", options={}, source="")


def test_what_is_overwritten_is_not_needed_any_more(verifier: Verifier) -> None:
    found = verifier.verify(cell("torch7", "eager", entangled()), environment_of("torch7"))
    assert {check.status for check in found.checks} == {"passed"}, found.reason


def test_layers_of_random_geometry(verifier: Verifier) -> None:
    subject = cell("torch7", "eager", small_network())
    found = verifier.verify_layers(subject, environment_of("torch7"))
    assert {check.status for check in found.checks} == {"passed"}, found.reason


def test_a_run_and_its_table(tmp_path: Path) -> None:
    environment_of("torch7")
    netdyno = [sys.executable, "-m", "netdyno.cli.main"]
    words = "--frameworks torch7 --networks conv_l5 --batch-size 2 --threads 2 --rounds 1 --json"
    done = subprocess.run(
        [*netdyno, "run", *words.split(), "--out", str(tmp_path / "run")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)["cells"]
    assert row["trials"] == {"ok": 1}
    assert row["verified"]
    assert row["fingerprint"]["threads"]["count"] == 2
    assert row["fingerprint"]["versions"]["torch7"].startswith("scm ")
    # Python waits, which takes it no tick; LuaJIT works for as long as a phase is measured.
    (trial,) = (tmp_path / "run" / "trials").iterdir()
    events = [json.loads(line) for line in trial.read_text().splitlines()]
    assert sum(event.get("user_seconds", 0.0) for event in events) > 0.1
    shown = subprocess.run(
        [*netdyno, "show", str(tmp_path / "run")], capture_output=True, text=True, check=True
    )
    assert "Torch7" in shown.stdout


def test_luajit_ends_with_a_worker_that_is_killed(tmp_path: Path) -> None:
    environment = environment_of("torch7")
    network = Builder((3, 8, 8))
    network.conv("c", 4, 3)
    network.flatten()
    network.dense("d", 3)
    network.loss()
    subject = cell("torch7", "eager", network.network("tiny", options={}, source=""))
    data = {**job(subject, seed=1), "scratch": str(tmp_path)}
    data["sampling"] = {**data["sampling"], "min_samples": 10**6, "max_samples": 10**6}
    data["sampling"]["phase_seconds"] = 1e6
    (tmp_path / "job.json").write_text(json.dumps(data))
    command = local.command(environment, tmp_path / "job.json", tmp_path / "events.jsonl")
    with subprocess.Popen(
        command,
        env=local.environ(environment, subject, tmp_path),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as worker:
        children = wait_for(lambda: children_of(worker.pid))
        os.kill(worker.pid, signal.SIGKILL)
    assert children
    assert wait_for(lambda: not any(Path(f"/proc/{child}").exists() for child in children))


def children_of(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(word) for word in text.split()]


def wait_for(condition: Callable[[], T]) -> T:
    """What ``condition`` returns once it is true, or after 30 s."""
    limit = time.monotonic() + 30
    while not (found := condition()) and time.monotonic() < limit:
        time.sleep(0.05)
    return found
