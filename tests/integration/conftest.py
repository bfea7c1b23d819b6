"""Runs cells of real frameworks in their environments; skips, with the reason, what is absent."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from netdyno.environments import Environment, find
from netdyno.errors import NetdynoError
from netdyno.frameworks import framework
from netdyno.networks import Network
from netdyno.parity.subject import Check, compute
from netdyno.plan.cell import Cell
from netdyno.redact import Redactor
from netdyno.settings import load_settings

Arrays = dict[str, np.ndarray]


def environment_of(name: str) -> Environment:
    """Skips the test where the framework has no usable environment."""
    try:
        return find(framework(name), load_settings())
    except NetdynoError as error:
        pytest.skip(str(error))


@pytest.fixture
def compute_cell() -> Callable[..., Arrays]:
    """A function that returns what one cell computes: see netdyno_worker/compute.py."""

    def run(
        network: Network, name: str, mode: str, precision: str = "fp32", layout: str = ""
    ) -> Arrays:
        environment = environment_of(name)
        layout = layout or framework(name).modes[mode].layouts[0]
        cell = Cell(name, mode, network.name, network, 4, precision, layout, "cpu", 2, "system")
        check = Check(network.name, network, 4, image_scale=0.02, train_steps=3)
        computed = compute(cell, environment, [check], Redactor({}))
        outcome = computed.outcomes[network.name]
        assert outcome.status == "ok", outcome.reason
        return computed.arrays[network.name]

    return run
