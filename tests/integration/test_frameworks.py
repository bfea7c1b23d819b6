"""Every framework, mode and layout computes what the NumPy reference computes.

In single and in double precision, as a whole and layer by layer: one small network holds every
kind of layer.
"""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
from pathlib import Path

import pytest

from netdyno.frameworks import WORKER_ROOT, frameworks
from netdyno.launch import local
from netdyno.parity.verify import Verifier
from netdyno.plan.job import job
from netdyno.runner import lacking
from tests.integration.conftest import cell, environment_of
from tests.small_network import small_network

pytestmark = pytest.mark.integration

WAYS = [
    pytest.param(spec.name, mode.name, layout, id=f"{spec.name}-{mode.name}-{layout}")
    for spec in frameworks().values()
    if spec.verifiable
    for mode in spec.modes.values()
    # A mode that compiles for half a minute is checked in one layout.
    for layout in (mode.layouts[:1] if mode.first_iteration_seconds > 20 else mode.layouts)
]

# The managed build has none that trains: see test_caffe.py.
WITHOUT_BATCH_NORM = {"caffe"}

IN_SINGLE_ONLY = {"keras": r"(batch norm|matrix products)", "mxnet": "LRN"}


@pytest.mark.parametrize(("name", "mode", "layout"), WAYS)
def test_computes_what_the_reference_computes(
    verifier: Verifier, name: str, mode: str, layout: str
) -> None:
    network = small_network(batch_norm=name not in WITHOUT_BATCH_NORM)
    subject = cell(name, mode, network, layout)
    if reason := lacking(subject):
        pytest.skip(reason)
    found = verifier.verify(subject, environment_of(name, mode))
    assert found.passed, found.reason
    # What one has in single precision only, it says; everything else is computed.
    skipped = {check.reason for check in found.checks if check.status == "skipped"}
    if name in IN_SINGLE_ONLY:
        expected = f"{IN_SINGLE_ONLY[name]} in single precision only"
        assert all(re.search(expected, reason) for reason in skipped)
    else:
        assert not skipped


@pytest.mark.parametrize("mode", ["symbol", "hybrid"])
def test_mxnet_in_double_precision_without_lrn(verifier: Verifier, mode: str) -> None:
    found = verifier.verify(cell("mxnet", mode, small_network(lrn=False)), environment_of("mxnet"))
    assert {check.status for check in found.checks} == {"passed"}, found.reason


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
@pytest.mark.parametrize(("name", "mode"), [("pytorch", "eager"), ("jax", "jit")])
def test_in_half_precision(verifier: Verifier, name: str, mode: str, precision: str) -> None:
    subject = dataclasses.replace(cell(name, mode, small_network()), precision=precision)
    found = verifier.verify(subject, environment_of(name))
    assert found.passed, found.reason


# A device on which nothing is computed stands in for a GPU: what is not made there shows.
WHERE = """
import sys
import torch
from netdyno_worker.frameworks.pytorch import adapter
from netdyno_worker.protocol import Job
adapter.find_device = lambda torch, name: torch.device("meta")
made = adapter.Adapter(Job.read(sys.argv[1]))
made.load({name: torch.zeros(value.shape).numpy() for name, value in made.names.items()})
tensors = [*made.module.parameters(), *made.module.buffers(), *made.names.values()]
print({tensor.device.type for tensor in tensors})
"""


def test_pytorch_makes_everything_on_its_device(tmp_path: Path) -> None:
    environment = environment_of("pytorch")
    subject = cell("pytorch", "eager", small_network())
    (tmp_path / "job.json").write_text(json.dumps(job(subject, seed=1)))
    done = subprocess.run(
        [environment.python, "-c", WHERE, str(tmp_path / "job.json")],
        env={
            **local.environ(environment, subject, tmp_path),
            "PYTHONPATH": str(WORKER_ROOT.parent),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.strip() == "{'meta'}", done.stderr
