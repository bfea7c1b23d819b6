"""What the CPU can do at most, as real frameworks reach it.

A timing is never asserted: what holds for any machine is.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from netdyno.device_limits import DeviceLimits
from netdyno.limits_runner import LimitsRunner
from netdyno.redact import Redactor
from tests.integration.conftest import environment_of

pytestmark = pytest.mark.integration

# Beside each of which a copy is to be found.
PRECISIONS = ("fp32", "tf32", "bf16", "fp64")


def limits_of(name: str, folder: Path) -> DeviceLimits:
    runner = LimitsRunner(
        lambda cell: folder / "events.jsonl", lambda path, outcome: None, Redactor({})
    )
    return runner.measure(("cpu", 2, PRECISIONS), [environment_of(name)])


@pytest.mark.parametrize("name", ["jax", "numpy", "pytorch"])
def test_what_a_cpu_can_do(name: str, tmp_path: Path) -> None:
    limits = limits_of(name, tmp_path)
    assert (limits.status, limits.reason) == ("ok", "")
    assert name in limits.versions
    single, double = (limits.ceilings(precision) for precision in ("fp32", "fp64"))
    assert single
    assert double
    assert limits.problem("tf32") == "TF32 is a precision of GPUs"
    assert bool(limits.ceilings("bf16")) == (name != "numpy")
    # No core multiplies a billion times a clock, nor once in a thousand.
    assert 1e7 < single.flop_per_second < 1e15
    assert 1e7 < single.bytes_per_second < 1e13
    for figure in limits.figures:
        if figure.value is None:
            continue
        assert figure.samples
        own = [s["seconds"] / s["iterations"] for s in figure.samples if s["size"] == figure.size]
        done = {"product": 2 * (figure.size or 0) ** 3, "copy": 2 * (figure.size or 0)}
        if figure.name in done:
            assert done[figure.name] / max(own) <= figure.value <= done[figure.name] / min(own)
        else:
            assert min(own) <= figure.value <= max(own)
