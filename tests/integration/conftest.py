"""Real frameworks in their environments; skips, with the reason, what is absent."""

from __future__ import annotations

import pytest

from netdyno.environments import Environment, find
from netdyno.errors import NetdynoError
from netdyno.frameworks import framework
from netdyno.networks import Network
from netdyno.parity.verify import Verifier
from netdyno.plan.cell import Cell
from netdyno.redact import Redactor
from netdyno.settings import load_settings


def environment_of(name: str, mode: str = "") -> Environment:
    """Skips the test where the framework has no usable environment.

    Keras over TensorFlow is in TensorFlow's.
    """
    try:
        if (name, mode) == ("keras", "tensorflow"):
            python = find(framework("tensorflow"), load_settings()).python
            return find(framework("keras"), load_settings([f"keras={python}"]))
        return find(framework(name), load_settings())
    except NetdynoError as error:
        pytest.skip(str(error))


def cell(name: str, mode: str, network: Network, layout: str = "") -> Cell:
    """On CPU, in single precision."""
    layout = layout or framework(name).modes[mode].layouts[0]
    return Cell(name, mode, network.name, network, 2, "fp32", layout, "cpu", 2, "system")


@pytest.fixture(scope="session")
def verifier() -> Verifier:
    return Verifier(find(framework("numpy"), load_settings()), Redactor({}))
