"""Caffe itself: it reads what is written for it, and its crashes cost one cell only."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from netdyno import networks
from netdyno.environments import clean_environ
from netdyno.networks import Network
from netdyno.networks.cost import count
from netdyno.networks.prototxt import to_prototxt
from netdyno.parity.verify import Verifier
from netdyno.plan.job import job
from netdyno.redact import Redactor
from netdyno.session import run_trial
from tests.integration.conftest import cell, environment_of
from tests.small_network import small_network

pytestmark = pytest.mark.integration

SRC = Path(__file__).parents[2] / "src"

LOADED = """
import json, sys
from netdyno_worker.frameworks.caffe import stand_ins
import caffe
for path in sys.argv[1:]:
    net = caffe.Net(path, caffe.TRAIN)
    shapes = {name: list(blob.shape) for name, blob in net.blobs.items()}
    learned = sum(
        blob.count
        for name, layer in zip(net._layer_names, net.layers) if layer.type != "BatchNorm"
        for blob in layer.blobs
    )
    print(json.dumps([shapes, learned]))
    del net
"""

ADAPTER = """
import json, sys
import numpy as np
from netdyno_worker import weights
from netdyno_worker.protocol import Job
from netdyno_worker.frameworks.caffe import adapter as module
from netdyno_worker.frameworks.caffe.adapter import Adapter
job = Job.read(sys.argv[1])
Adapter.prepare(job)

def computed():
    adapter = Adapter(job)
    adapter.load(weights.Parameters(job.network, job.seed))
    adapter.set_batch(*weights.batch(job.network, job.batch_size, job.seed, 1.0))
    adapter.forward_backward()
    return adapter
"""

IN_PLACE = """
import functools
one = computed()
module.prototxt = functools.partial(module.prototxt, in_place=False)
other = computed()
assert len(set(other.written.blobs.values())) > len(set(one.written.blobs.values()))
distances = {
    name: float(np.linalg.norm(value - other.gradients()[name]) / np.linalg.norm(value))
    for name, value in one.gradients().items()
}
print(json.dumps([distances, one.loss(), other.loss()]))
"""

RELOADED = """
adapter = computed()
weights = {name: value.copy() for name, value in adapter.parameters().items()}
found = []
for _ in range(2):
    adapter.load(weights)
    adapter.train_step()
    adapter.train_step()
    found.append([float(np.linalg.norm(v - weights[k])) for k, v in adapter.parameters().items()])
print(json.dumps(found))
"""


def run(code: str, *words: str | Path) -> list[Any]:
    """The lines of JSON that a program prints in Caffe's environment."""
    environment = environment_of("caffe")
    done = subprocess.run(
        [str(environment.python), "-c", code, *map(str, words)],
        env={**clean_environ(), "PYTHONPATH": str(SRC), "GLOG_minloglevel": "2"},
        cwd=os.sep,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def job_file(folder: Path, network: Network) -> Path:
    path = folder / "job.json"
    path.write_text(json.dumps(job(cell("caffe", "net", network), seed=1)))
    return path


def test_the_prototxt_of_every_network_loads(tmp_path: Path) -> None:
    names = networks.names()
    for name in names:
        (tmp_path / name).write_text(to_prototxt(networks.build(name), 1))
    for name, (shapes, learned) in zip(
        names, run(LOADED, *(tmp_path / name for name in names)), strict=True
    ):
        network = networks.build(name)
        losses = {loss.name for loss in network.losses}
        for own in (shapes.keys() & network.shapes.keys()) - losses:
            assert shapes[own] == [1, *network.shapes[own]], (name, own)
        assert network.output in shapes
        assert all(shapes[loss] == [] for loss in losses)
        assert learned == count(network).parameters


def test_what_is_written_in_place_loses_nothing(tmp_path: Path) -> None:
    network = small_network(batch_norm=False)
    ((distances, loss, other),) = run(ADAPTER + IN_PLACE, job_file(tmp_path, network))
    assert distances.keys() == network.parameter_shapes.keys()
    assert max(distances.values()) < 1e-6
    assert loss == pytest.approx(other, rel=1e-6)


def test_loading_takes_the_momentum_away(tmp_path: Path) -> None:
    network = small_network(batch_norm=False)
    ((first, again),) = run(ADAPTER + RELOADED, job_file(tmp_path, network))
    assert len(first) == len(network.parameter_shapes)
    assert min(first) > 0
    assert again == pytest.approx(first, rel=1e-4)


def test_single_layers(verifier: Verifier) -> None:
    subject = cell("caffe", "net", small_network())
    found = verifier.verify_layers(subject, environment_of("caffe"))
    assert found.passed, found.reason
    assert len(found.checks) == 9
    reasons = [check.reason for check in found.checks if check.status == "skipped"]
    assert len(reasons) <= 3
    assert all(re.search("average pool counts padding|batch norm", reason) for reason in reasons)


def test_batch_norm_is_right_or_refused(verifier: Verifier) -> None:
    """BVLC's Caffe has it; the build that has wheels never takes a batch's statistics."""
    subject = cell("caffe", "net", small_network())
    found = verifier.verify(subject, environment_of("caffe"))
    statuses = {check.status for check in found.checks}
    if environment_of("caffe").managed:
        assert statuses == {"skipped"}
        assert "this build of Caffe has no batch norm in training" in found.reason
    else:
        assert statuses == {"passed"}, found.reason


def test_a_failed_check_of_caffe_is_the_reason(tmp_path: Path) -> None:
    """It aborts the process: here since a job says that what is added has other shapes."""
    environment = environment_of("caffe")
    subject = cell("caffe", "net", small_network(batch_norm=False))
    told = job(subject, seed=1)
    (wrong,) = [own for own in told["network"]["layers"] if own["name"] == "b/2"]
    wrong["padding"] = (1, 1)
    events = tmp_path / "events.jsonl"
    outcome = run_trial(subject, environment, told, events, timeout_seconds=60, redact=Redactor({}))
    assert outcome.status == "failed"
    assert re.fullmatch(
        r"killed by signal 6 \(SIGABRT\); its last words: Check failed: .*shape.*", outcome.reason
    ), outcome.reason
