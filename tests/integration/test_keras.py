"""Keras over each of its backends: half precision, dropout, what is absent, what it tells.

That it computes what the reference computes, test_frameworks.py holds; the tensorflow mode runs in
TensorFlow's environment, which brings Keras along.
"""

from __future__ import annotations

import dataclasses
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from netdyno.environments import Environment
from netdyno.frameworks import framework
from netdyno.networks import Network
from netdyno.networks.builder import Builder
from netdyno.parity.verify import Verifier
from netdyno.plan.job import job
from netdyno.redact import Redactor
from netdyno.session import run_trial
from tests.integration.conftest import cell, environment_of
from tests.small_network import small_network

pytestmark = pytest.mark.integration

MODES = list(framework("keras").modes)

PACKAGES = {"jax": "jax", "torch": "pytorch", "tensorflow": "tensorflow"}

by_mode = pytest.mark.parametrize("mode", MODES)


def with_dropout() -> Network:
    net = Builder((3, 17, 17))
    net.conv("c", 8, 3, padding=1)
    net.relu()
    net.pool("p", "max", 2, 2)
    net.flatten()
    net.dropout(0.5)
    net.dense("d", 16)
    net.relu()
    net.dropout(0.5)
    net.dense("e", 10)
    net.loss()
    return net.network("dropped", options={}, source="")


def told(environment: Environment, code: str) -> dict[str, Any]:
    """What a program prints, as JSON, in an environment with nobody's home to write to."""
    first = framework("keras").folder / "backend.py"
    done = subprocess.run(
        [str(environment.python), "-c", code, str(first)],
        env=environment.environ({"HOME": "/nonexistent"}),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


HALF = [(mode, precision) for mode in MODES for precision in ("bf16", "fp16")]


@pytest.mark.parametrize(("mode", "precision"), HALF)
def test_in_half_precision(verifier: Verifier, mode: str, precision: str) -> None:
    subject = dataclasses.replace(cell("keras", mode, small_network()), precision=precision)
    found = verifier.verify(subject, environment_of("keras", mode))
    assert found.passed, found.reason
    own = [check for check in found.checks if check.precision == precision]
    assert [check.status for check in own] == ["passed", "passed"]
    # It is half precision: single would be nearer by far.
    assert all(check.worst and (check.worst.relative_l2 or 0) > 1e-4 for check in own)


# Over PyTorch, Keras multiplies matrices in single precision.
@pytest.mark.parametrize("mode", ["jax", "tensorflow"])
def test_in_double_precision_without_batch_norm(verifier: Verifier, mode: str) -> None:
    subject = cell("keras", mode, small_network(batch_norm=False))
    subject = dataclasses.replace(subject, precision="fp64")
    found = verifier.verify(subject, environment_of("keras", mode))
    assert [check.status for check in found.checks] == ["passed", "passed"], found.reason


@by_mode
def test_trains_with_dropout_and_does_its_work(mode: str, tmp_path: Path) -> None:
    environment = environment_of("keras", mode)
    subject = cell("keras", mode, with_dropout())
    asked = {**job(subject, seed=1), "check_work": True}
    events = tmp_path / "events.jsonl"
    outcome = run_trial(
        subject, environment, asked, events, timeout_seconds=300, redact=Redactor({})
    )
    assert outcome.status == "ok", outcome.reason
    seen = [json.loads(line) for line in events.read_text().splitlines()]
    (found,) = [event for event in seen if event["event"] == "fingerprint"]
    assert {"keras", PACKAGES[mode]} <= found["versions"].keys()
    assert found["versions"]["keras"].startswith("3.")
    assert found["tf32"] is False
    assert any("weight decay" in note for note in found["notes"])
    assert not any("LRN" in note or "variance" in note for note in found["notes"])


def test_a_backend_that_is_absent_is_skipped_with_the_reason(tmp_path: Path) -> None:
    environment = environment_of("keras")
    if "tensorflow" in {name.partition("_")[0] for name in environment.packages}:
        pytest.skip("TensorFlow is beside this Keras")
    subject = cell("keras", "tensorflow", with_dropout())
    outcome = run_trial(
        subject,
        environment,
        job(subject, seed=1),
        tmp_path / "events.jsonl",
        timeout_seconds=300,
        redact=Redactor({}),
    )
    assert outcome.status == "skipped"
    assert outcome.reason == "UnsupportedError: TensorFlow is not installed beside this Keras"


def test_it_is_imported_with_a_backend_that_is_there() -> None:
    code = (
        "import json, os, runpy, sys; runpy.run_path(sys.argv[1]); import keras;"
        "print(json.dumps([keras.backend.backend(), os.environ['KERAS_HOME']]))"
    )
    assert told(environment_of("keras"), code) == ["jax", "/dev/null"]
