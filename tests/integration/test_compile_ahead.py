"""PyTorch compiled before its trials: they load it, and compile nothing again."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from netdyno.compile_ahead import compile_ahead, compiles_ahead
from netdyno.networks import Network
from netdyno.networks.builder import Builder
from netdyno.outcome import Outcome
from netdyno.plan.cell import Cell
from netdyno.plan.job import job
from netdyno.plan.request import Request
from netdyno.redact import Redactor
from netdyno.runner import lacking
from netdyno.session import run_trial
from tests.integration.conftest import cell, environment_of

pytestmark = pytest.mark.integration

PHASES = ("forward_backward",)


def tiny() -> Network:
    """Few layers: each takes the C++ compiler seconds."""
    net = Builder((3, 9, 9))
    net.conv("c", 8, 3, padding=1)
    net.relu()
    net.flatten()
    net.dense("d", 10)
    net.loss()
    return net.network("tiny", options={}, source="")


@pytest.fixture
def compiled() -> Cell:
    found = cell("pytorch", "compile", tiny())
    reason = lacking(found)
    if reason:
        pytest.skip(reason)
    return found


def test_only_what_chooses_nothing_by_the_clock(compiled: Cell) -> None:
    assert compiles_ahead(compiled)
    for framework, mode in (("pytorch", "eager"), ("jax", "jit"), ("tensorflow", "xla")):
        assert not compiles_ahead(dataclasses.replace(compiled, framework=framework, mode=mode))


def test_trials_load_what_was_compiled(compiled: Cell, tmp_path: Path) -> None:
    environments = {"pytorch": environment_of("pytorch")}
    told: dict[str, Outcome] = {}
    broken = dataclasses.replace(compiled, device="cuda:7")
    with compile_ahead(
        [compiled, broken],
        Request(phases=PHASES),
        environments,
        Redactor({}),
        tmp_path / "compiled" / "run",
        ended=lambda cell, outcome: told.update({cell.key: outcome}),
    ) as found:
        assert list(found) == [compiled.key]
        assert told[broken.key].status == "skipped"
        folder = found[compiled.key]
        before = {path for path in folder.rglob("*") if path.suffix in (".so", ".cpp", ".cubin")}
        assert before
        outcome = run_trial(
            compiled,
            environments["pytorch"],
            job(compiled, 1, phases=PHASES, compile_cache=folder),
            tmp_path / "events.jsonl",
            timeout_seconds=300,
            redact=Redactor({}),
        )
        assert outcome.status == "ok", outcome.reason
        after = {path for path in folder.rglob("*") if path.suffix in (".so", ".cpp", ".cubin")}
        assert after == before
        events = map(json.loads, (tmp_path / "events.jsonl").read_text().splitlines())
        assert {e["phase"] for e in events if e["event"] == "block"} == set(PHASES)
    assert not folder.exists()
