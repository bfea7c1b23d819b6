"""Plans of a real MXNet, its in-place and sharing switched off in turn, beside the planner's."""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path

import pytest

from netdyno.host.compiler import Compiler, cxx_compiler
from netdyno.memory import MXNET_1_9, STRATEGIES
from netdyno.memory.figure7 import networks
from netdyno.published import figure7
from netdyno.published.figure7 import PHASES, mxnet_plans, planned
from netdyno.redact import Redactor
from tests.integration.conftest import environment_of

pytestmark = pytest.mark.integration

BATCH_SIZE = 64
# MXNet rounds down to MiB, and counts the output: 1000 numbers an image.
ROUNDING_GIB = (2**20 + BATCH_SIZE * 1000 * 4) / 2**30


@pytest.fixture
def alexnet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the paper's three networks only the first."""
    only = {"alexnet": networks()["alexnet"]}
    monkeypatch.setattr(figure7, "networks", lambda: only)


@pytest.mark.usefixtures("alexnet")
def test_four_strategies() -> None:
    environment = environment_of("mxnet")
    compiler = cxx_compiler()
    if compiler is None:
        pytest.skip("no C++ compiler")
    found, reasons = mxnet_plans(BATCH_SIZE, environment, compiler, Redactor({}))
    assert reasons == []
    expected = planned(BATCH_SIZE, MXNET_1_9)
    assert found.keys() == expected.keys()
    for key, gib in found.items():
        assert gib == pytest.approx(expected[key], abs=ROUNDING_GIB), key
    for phase in PHASES:  # far apart: what is switched off is off
        sizes = [found["alexnet", phase, strategy] for strategy in STRATEGIES]
        assert sizes == sorted(sizes, reverse=True)
        assert min(a - b for a, b in pairwise(sizes)) > 10 * ROUNDING_GIB


@pytest.mark.usefixtures("alexnet")
def test_a_compiler_that_fails_costs_what_needs_it(tmp_path: Path) -> None:
    broken = tmp_path / "cxx"
    broken.write_text(f"#!{sys.executable}\nraise SystemExit('no_inplace.cc: error: no headers')\n")
    broken.chmod(0o755)
    found, reasons = mxnet_plans(
        2, environment_of("mxnet"), Compiler(str(broken), "broken"), Redactor({})
    )
    assert {key[2] for key in found} == {"inplace", "both"}
    assert [reason.where for reason in reasons] == ["alexnet, naive", "alexnet, coshare"]
    assert all("no_inplace.cc: error: no headers" in reason.text for reason in reasons)
    assert all(reason.failed for reason in reasons)
