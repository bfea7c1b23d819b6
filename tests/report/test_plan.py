"""What ``--dry-run`` tells."""

from __future__ import annotations

import io
import json
from collections.abc import Callable

import pytest
from rich.console import Console

from netdyno.plan.cell import Cell
from netdyno.plan.estimate import CellEstimate
from netdyno.plan.request import Request
from netdyno.report.plan import plan_json, print_plan


@pytest.fixture
def two(make_cell: Callable[..., Cell]) -> list[Cell]:
    return [make_cell(network_spec="[b]odd"), make_cell(mode="drift")]


@pytest.fixture
def estimates(two: list[Cell]) -> dict[str, CellEstimate]:
    return {cell.key: CellEstimate(60.0, 2 * 10**9) for cell in two}


def test_json(two: list[Cell], estimates: dict[str, CellEstimate]) -> None:
    data = json.loads(json.dumps(plan_json(Request(rounds=4), two, estimates), allow_nan=False))
    assert data["estimated_seconds"] == 480.0
    assert [cell["estimated_memory_bytes"] for cell in data["cells"]] == [2 * 10**9] * 2
    assert len(data["rounds"]) == 4
    for order in data["rounds"]:
        assert sorted(order) == sorted(cell.key for cell in two)


def test_text(two: list[Cell], estimates: dict[str, CellEstimate]) -> None:
    console = Console(file=io.StringIO(), width=200)
    print_plan(Request(rounds=4, budget_seconds=120.0), two, estimates, console)
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert "2 cells, 4 rounds" in text
    assert "[b]odd" in text
    assert "About 8 min in all" in text
    assert "The budget of 2 min will end it earlier." in text
    assert "\x1b" not in text
