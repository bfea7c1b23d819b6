"""Computes checks in this process, with the NumPy adapter: whole or with something wrong in it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from netdyno.networks import Network
from netdyno.parity.compare import TensorResult, compare
from netdyno.parity.conditions import HYPERPARAMETERS, SEED
from netdyno.parity.subject import Arrays, Check
from netdyno.parity.tolerance import tolerance
from netdyno.parity.verify import checks_of
from netdyno.plan.cell import Cell
from netdyno.plan.job import job
from netdyno_worker import compute as worker_compute
from netdyno_worker import protocol
from netdyno_worker.frameworks.numpy.adapter import Adapter


def compute_here(check: Check, precision: str, adapter: type[Adapter] = Adapter) -> Arrays:
    """What ``adapter`` computes of one check."""
    cell = Cell(
        "numpy",
        "plain",
        check.name,
        check.network,
        check.batch_size,
        precision,
        "nchw",
        "cpu",
        1,
        "system",
    )
    data = {**job(cell, SEED), "hyperparameters": HYPERPARAMETERS}
    own = protocol.Job.from_json(json.loads(json.dumps(data)))
    sent = protocol.Check(
        check.name,
        own.network,
        check.batch_size,
        check.image_scale,
        check.train_steps,
        "",
    )
    found: Arrays = {}

    def put(name: str, value: np.ndarray[Any, Any]) -> None:
        found[name] = np.array(value)

    worker_compute.compute(adapter(own), sent, SEED, put)
    return found


_KNOWN: dict[str, Arrays] = {}


def reference(check: Check) -> Arrays:
    """Computed once for all tests: it takes longer than they do."""
    key = f"{check.name} {check.network.hash}"
    if key not in _KNOWN:
        _KNOWN[key] = compute_here(check, "fp64")
    return _KNOWN[key]


Judge = Callable[..., list[TensorResult]]


@pytest.fixture
def judge() -> Judge:
    """``judge(network, precision, adapter=…, computes=…)``: what differs from the reference.

    ``computes`` is the network that the adapter computes in place of ``network``.
    """

    def run(
        network: Network,
        precision: str,
        adapter: type[Adapter] = Adapter,
        computes: Network | None = None,
    ) -> list[TensorResult]:
        failures: list[TensorResult] = []
        for right, wrong in zip(checks_of(network), checks_of(computes or network), strict=True):
            bounds = tolerance(right.network, precision, right.batch_size)
            found = compute_here(wrong, precision, adapter)
            tensors = compare(right.network, found, reference(right), bounds)
            failures += [tensor for tensor in tensors if not tensor.passed]
        return failures

    return run
