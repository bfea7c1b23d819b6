"""Jobs as the controller sends them: through JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from netdyno.networks import Network
from netdyno.plan.cell import Cell
from netdyno.plan.job import job
from netdyno_worker.network import Network as WorkerNetwork
from netdyno_worker.protocol import Job

MakeJob = Callable[..., Job]


@pytest.fixture
def job_data(make_cell: Callable[..., Cell]) -> dict[str, Any]:
    """What stands in a job file."""
    data = json.loads(json.dumps(job(make_cell(), seed=1), allow_nan=False))
    assert isinstance(data, dict)
    return data


@pytest.fixture
def make_job(make_cell: Callable[..., Cell]) -> MakeJob:
    """``make_job(network, batch_size=…)``: for the NumPy reference in float64."""

    def make(network: Network, **axes: Any) -> Job:
        cell = make_cell(
            **{
                "framework": "numpy",
                "mode": "plain",
                "precision": "fp64",
                **axes,
                "network": network,
            }
        )
        return Job.from_json(json.loads(json.dumps(job(cell, seed=1), allow_nan=False)))

    return make


@pytest.fixture
def tiny(tiny_network: Network) -> WorkerNetwork:
    """The tiny network as the worker sees it."""
    return WorkerNetwork(json.loads(json.dumps(tiny_network.to_json())))
