"""A tiny network, cells of it, and run folders and worker jobs that are made by hand."""

from __future__ import annotations

import dataclasses
import json
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from netdyno.environments import Environment
from netdyno.launch import local
from netdyno.networks import Network
from netdyno.networks.builder import Builder
from netdyno.plan.cell import Cell
from netdyno.plan.sampling import Sampling

MakeCell = Callable[..., Cell]
WriteRun = Callable[..., Path]


@pytest.fixture(autouse=True, scope="session")
def own_lock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Neither a person's run nor another test session holds these tests up, nor they it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NETDYNO_LOCK", str(tmp_path_factory.mktemp("lock") / "netdyno.lock"))
        yield


@pytest.fixture
def tiny_network() -> Network:
    """One of each layer kind that fits 3x6x6 images and four classes."""
    builder = Builder((3, 6, 6))
    builder.conv("conv1", 4, 3, padding=1)
    builder.batch_norm()
    trunk = builder.relu()
    left = builder.conv("left", 4, 3, padding=1, groups=2, reads=trunk)
    added = builder.add_together("added", [left, trunk])
    builder.lrn("lrn")
    pooled = builder.pool("pooled", "max", 3, 2, ceil_mode=True, reads=added)
    mean = builder.pool("mean", "average", 3, 2, ceil_mode=True, reads="lrn")
    builder.concat("both", [pooled, mean])
    builder.flatten()
    builder.dropout(0.0)
    builder.dense("logits", 4)
    builder.loss()
    return builder.network("tiny", options={}, source="made for tests")


@pytest.fixture
def make_cell(tiny_network: Network) -> MakeCell:
    """A cell of the null framework unless told otherwise: ``make_cell(mode="hang")``."""

    def make(**axes: Any) -> Cell:
        cell = Cell(
            framework="null",
            mode="steady",
            network_spec="tiny",
            network=tiny_network,
            batch_size=2,
            precision="fp32",
            layout="nchw",
            device="cpu",
            threads=1,
            host_allocator="system",
        )
        return dataclasses.replace(cell, **axes)

    return make


@pytest.fixture
def quick() -> Sampling:
    """Few samples, so that a trial of the null framework is over at once."""
    return Sampling(
        min_samples=2,
        max_samples=3,
        phase_seconds=0.05,
        min_block_seconds=0.0005,
        max_warmup_iterations=2,
    )


@pytest.fixture
def here() -> Environment:
    """The interpreter that runs the tests, which has NumPy and so can run the worker."""
    return Environment("null", Path(sys.executable), "controller", "cpu", "ready")


@pytest.fixture
def write_run(tmp_path: Path) -> WriteRun:
    """``write_run(cells, {"trial name": [event, …]}, **fields_of_run_json)`` -> its folder."""

    def write(
        cells: Sequence[Mapping[str, Any]],
        trials: Mapping[str, Sequence[Mapping[str, Any] | str]],
        **fields: Any,
    ) -> Path:
        folder = tmp_path / "written"
        (folder / "trials").mkdir(parents=True)
        data = {
            "schema": 1,
            "netdyno": "0.0",
            "started": "2026-01-01T00:00:00+00:00",
            "ended": "2026-01-01T00:01:00+00:00",
            "status": "complete",
            "request": {},
            "host": {"machine": "abacus"},
            "networks": {},
            "cells": list(cells),
            "verification": {
                str(cell.get("key")): {"passed": True, "reason": "", "created": ""}
                for cell in cells
            },
            **fields,
        }
        (folder / "run.json").write_text(json.dumps(data))
        for name, events in trials.items():
            lines = [event if isinstance(event, str) else json.dumps(event) for event in events]
            (folder / "trials" / f"{name}.jsonl").write_text("".join(f"{li}\n" for li in lines))
        return folder

    return write


@pytest.fixture
def worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """``worker(code)``: that code runs in place of the worker, with its two arguments."""

    def put(code: str) -> None:
        path = tmp_path / "stand_in.py"
        path.write_text(textwrap.dedent(code))

        def command(environment: Environment, job: Path, events: Path) -> list[str]:
            return [sys.executable, "-u", str(path), str(job), str(events)]

        monkeypatch.setattr(local, "command", command)

    return put
