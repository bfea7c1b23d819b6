"""tinygrad itself: what it captures and replays is what was asked for, in every precision."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from netdyno.environments import Environment, clean_environ
from netdyno.networks import Network
from netdyno.networks.builder import Builder
from netdyno.parity.conditions import BATCH_SIZE, NETWORK_IMAGE_SCALE, TRAIN_STEPS
from netdyno.parity.subject import Check
from netdyno.parity.verify import Verifier
from netdyno.plan.job import job, memory_job
from netdyno.redact import Redactor
from netdyno.runner import lacking
from netdyno.session import run_trial
from tests.integration.conftest import cell, environment_of

pytestmark = pytest.mark.integration

SRC = Path(__file__).parents[2] / "src"

ADAPTER = """
import json, sys
import numpy as np
from netdyno_worker import weights
from netdyno_worker.protocol import Job
from netdyno_worker.frameworks.tinygrad.adapter import Adapter
job = Job.read(sys.argv[1])
Adapter.prepare(job)
adapter = Adapter(job)
start = weights.Parameters(job.network, job.seed)
batch = weights.batch(job.network, job.batch_size, job.seed, 1.0)
other = weights.batch(job.network, job.batch_size, job.seed + 1, 1.0)
adapter.load(start)
adapter.set_batch(*batch)

def distance(found, expected):
    return float(np.linalg.norm(found - expected) / np.linalg.norm(expected))
"""

# The first call runs kernel by kernel, the second captures, the others replay what it captured.
REPLAYS = """
def results():
    adapter.forward()
    adapter.synchronize()
    logits = adapter.logits().copy()
    adapter.forward_backward()
    adapter.synchronize()
    return np.concatenate([logits.ravel()] + [g.ravel() for g in adapter.gradients().values()])

first, captured, replayed = results(), results(), results()
adapter.set_batch(*other)
of_other = results()
adapter.load({name: 0.5 * value for name, value in start.items()})
of_halved = results()
fresh = Adapter(job)
fresh.load({name: 0.5 * value for name, value in start.items()})
fresh.set_batch(*other)
adapter = fresh
expected = results()
adapter = None
print(json.dumps({
    "captured": distance(captured, first),
    "replayed": distance(replayed, first),
    "other images": distance(of_other, first),
    "other weights": distance(of_halved, of_other),
    "fresh": distance(of_halved, expected),
}))
"""

RELOADED = """
found = []
for _ in range(2):
    adapter.load(start)
    for _ in range(4):
        adapter.train_step()
    adapter.synchronize()
    found.append([float(np.linalg.norm(v - start[k])) for k, v in adapter.parameters().items()])
print(json.dumps(found))
"""

DROPOUT = """
logits = []
for _ in range(5):
    adapter.forward()
    adapter.synchronize()
    logits.append(adapter.logits().round(6).tolist())
print(json.dumps(logits))
"""

# Its CUDA device takes the address of what it copies from, which ctypes refuses for the others.
COPIES = """
import tinygrad
taken = []
make = tinygrad.Tensor
class Watched:
    def __call__(self, value, device):
        taken.append(value.flags.writeable)
        return make(value, device=device)
    def __getattr__(self, name):
        return getattr(make, name)
tinygrad.Tensor = Watched()
for value in start.values():
    value.flags.writeable = False
adapter.load(start)
adapter.set_batch(*batch)
print(json.dumps(taken))
"""

FACTS = """
adapter.forward()
print(json.dumps([adapter.versions(), adapter.threads(), adapter.tf32()]))
"""


def tiny(dropout: float = 0.0) -> Network:
    """A dozen kernels, each of which takes tinygrad a second to make."""
    net = Builder((3, 9, 9))
    net.conv("c", 8, 3, padding=1)
    net.relu()
    net.pool("p", "max", 2, 2)
    net.flatten()
    if dropout:
        net.dropout(dropout)
    net.dense("d", 10)
    net.loss()
    return net.network("tiny", options={}, source="")


@pytest.fixture
def environment() -> Environment:
    reason = lacking(cell("tinygrad", "jit", tiny()))
    if reason:
        pytest.skip(reason)
    return environment_of("tinygrad")


def run(environment: Environment, code: str, network: Network, home: Path, **told: Any) -> Any:
    """What a program prints as JSON in tinygrad's environment, with a home folder of its own."""
    path = home.parent / "job.json"
    home.mkdir(exist_ok=True)
    path.write_text(json.dumps({**job(cell("tinygrad", "jit", network), seed=1), **told}))
    done = subprocess.run(
        [str(environment.python), "-c", ADAPTER + code, str(path)],
        env={**clean_environ(), "PYTHONPATH": str(SRC), "HOME": str(home), "XDG_CACHE_HOME": ""},
        cwd=os.sep,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_replays_follow_the_batch_and_the_weights(environment: Environment, tmp_path: Path) -> None:
    found = run(environment, REPLAYS, tiny(), tmp_path / "home")
    assert max(found[key] for key in ("captured", "replayed", "fresh")) < 1e-6
    assert min(found[key] for key in ("other images", "other weights")) > 1e-2


def test_loading_takes_the_momentum_away(environment: Environment, tmp_path: Path) -> None:
    first, again = run(environment, RELOADED, tiny(), tmp_path / "home")
    assert min(first) > 0
    assert again == pytest.approx(first, rel=1e-4)


def test_dropout_draws_anew_at_each_replay(environment: Environment, tmp_path: Path) -> None:
    logits = run(environment, DROPOUT, tiny(dropout=0.5), tmp_path / "home")
    assert len({json.dumps(values) for values in logits}) == len(logits)


def test_arrays_that_are_copied_to_a_device_are_its_own(
    environment: Environment, tmp_path: Path
) -> None:
    writable = run(environment, COPIES, tiny(), tmp_path / "home")
    assert writable
    assert all(writable)


def test_what_it_tells_and_that_it_leaves_nothing_behind(
    environment: Environment, tmp_path: Path
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    home = tmp_path / "home"
    versions, threads, tf32 = run(environment, FACTS, tiny(), home, scratch=str(scratch))
    assert versions["tinygrad"] == environment.framework_version
    assert versions["clang"][0].isdigit()
    assert threads["count"] == 1
    assert tf32 is False
    assert not list(home.iterdir())
    assert list(scratch.iterdir())


def test_internal_memory_is_that_of_its_plan(environment: Environment, tmp_path: Path) -> None:
    """A convolution's output, counted by hand, is all that a forward pass puts aside."""
    net = Builder((3, 9, 9))
    net.conv("c", 8, 3, padding=1)
    net.flatten()
    net.dense("d", 10)
    net.loss()
    network = net.network("one convolution", options={}, source="")
    seen: dict[int, dict[str, int]] = {}
    for batch in (64, 128):
        subject = dataclasses.replace(cell("tinygrad", "jit", network), batch_size=batch)
        path = tmp_path / f"{batch}.jsonl"
        outcome = run_trial(
            subject,
            environment,
            memory_job(subject, 1),
            path,
            timeout_seconds=600,
            redact=Redactor({}),
        )
        assert outcome.status == "ok", outcome
        events = [json.loads(line) for line in path.read_text().splitlines()]
        seen[batch] = {e["phase"]: e["internal_bytes"] for e in events if e["event"] == "memory"}
        output = 4 * batch * 8 * 9 * 9
        # The rest is what softmax puts aside: a few numbers an image.
        assert output <= seen[batch]["forward"] < 1.1 * output
        assert seen[batch]["forward"] < seen[batch]["forward_backward"]
    # Gradients of parameters, which it plans, do not grow with the batch.
    assert seen[64]["train_step"] < seen[128]["train_step"]


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_mixed_precision(verifier: Verifier, environment: Environment, precision: str) -> None:
    """As on a GPU; the CPU emulates it."""
    network = tiny()
    subject = dataclasses.replace(cell("tinygrad", "jit", network), precision=precision)
    check = Check(network.name, network, BATCH_SIZE, NETWORK_IMAGE_SCALE, TRAIN_STEPS)
    results = verifier.run(subject, environment, [check])
    assert {result.precision for result in results} == {precision, "fp64"}
    if "has no bfloat16" in results[0].reason:
        pytest.skip(results[0].reason)
    assert all(result.status == "passed" for result in results), results
    # It was rounded to few bits, and not computed in single precision under another name.
    errors = {t.name: t.relative_l2 or 0.0 for r in results[:1] for t in r.tensors}
    assert errors["logits"] > 1e-5
    # Parameters are not rounded: their updates are a millionth of them.
    assert errors["update/d.weight"] < 0.1
