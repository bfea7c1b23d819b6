"""Several cells at once: as many as were asked for, in order, and ended in order."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from netdyno.environments import Environment
from netdyno.networks import Network
from netdyno.parity.side_by_side import side_by_side
from netdyno.parity.verify import CheckResult, Verification, Verifier
from netdyno.plan.cell import Cell
from netdyno.redact import Redactor
from tests.small_network import small_network

MakeCell = Callable[..., Cell]
HERE = Environment("null", Path(), "controller", "cpu", "ready")


class Fake(Verifier):
    """Calls ``during`` while it verifies; keeps what it was asked and what it forgot."""

    def __init__(self, during: Callable[[Cell], object]) -> None:
        super().__init__(HERE, Redactor({}))
        self.during = during
        self.asked: list[Cell] = []
        self.computed: list[str] = []
        self.in_double: list[str] = []
        self.forgot: list[str] = []

    def verify(self, cell: Cell, environment: Environment) -> Verification:
        self.asked.append(cell)
        self.during(cell)
        return Verification(cell, (CheckResult(cell.network.name, cell.precision, "passed"),))

    def strict(self, cell: Cell, environment: Environment) -> Callable[[], Any]:
        return lambda: self.in_double.append(cell.network.name)

    def references(self, network: Network) -> list[Callable[[], Any]]:
        return [lambda: self.computed.append(network.name)]

    def forget(self, network: Network) -> None:
        self.forgot.append(network.name)


def run(cells: list[Cell], verifier: Verifier, jobs: int) -> list[Cell]:
    found = list(side_by_side(cells, {"null": HERE}, verifier, jobs))
    assert all(verification.cell is cell for cell, verification in found)
    return [cell for cell, _ in found]


def test_as_many_as_there_are_jobs_run_at_once(make_cell: MakeCell) -> None:
    meeting = threading.Barrier(3)
    cells = [make_cell(batch_size=size) for size in range(1, 7)]
    # Each waits until two others are there too: with fewer at once, the barrier breaks.
    verifier = Fake(lambda cell: meeting.wait(10))
    found = run(cells, verifier, jobs=3)
    assert verifier.computed == ["tiny"]
    assert sorted(cell.key for cell in found) == sorted(cell.key for cell in cells)


def test_one_network_after_the_other_and_none_is_kept(make_cell: MakeCell) -> None:
    cells = [
        make_cell(network=network, precision=precision)
        for precision in ("fp32", "bf16")
        for network in (small_network(), make_cell().network)
    ]
    verifier = Fake(lambda cell: None)
    run(cells, verifier, jobs=1)
    names = [cell.network.name for cell in verifier.asked]
    assert names == sorted(names, key=names.index)
    assert verifier.computed == []
    assert verifier.forgot == list(dict.fromkeys(names))
    assert [cell.precision for cell in verifier.asked] == ["bf16", "fp32"] * 2


def test_at_once_precisions_follow_each_other(make_cell: MakeCell) -> None:
    """Those of one framework and network share a check."""
    cells = [
        make_cell(network=network, precision=precision)
        for network in (small_network(), make_cell().network)
        for precision in ("fp32", "bf16")
    ]
    pair = threading.Barrier(2)
    verifier = Fake(lambda cell: pair.wait(10))
    run(cells, verifier, jobs=2)
    assert sorted(verifier.computed) == ["small", "tiny"]
    assert sorted(verifier.forgot) == ["small", "tiny"]
    assert {cell.precision for cell in verifier.asked[:2]} == {"bf16"}
    assert sorted(verifier.in_double) == ["small", "tiny"]


def test_who_stops_ends_what_is_under_way(make_cell: MakeCell) -> None:
    begun = threading.Event()

    def hang(cell: Cell) -> None:
        if cell.batch_size == 1:
            return
        begun.set()
        assert verifier._stopped.wait(10)
        raise KeyboardInterrupt

    verifier = Fake(hang)
    cells = [make_cell(batch_size=size) for size in range(1, 7)]

    def interrupted() -> None:
        for _ in side_by_side(cells, {"null": HERE}, verifier, 2):
            assert begun.wait(10)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert len(verifier.asked) <= 3  # those that had not begun never do
