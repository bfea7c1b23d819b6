"""How many workers a host is given at once, and what becomes of their results."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from netdyno import at_once as module
from netdyno.at_once import at_once, jobs_for, sharing
from netdyno.plan.cell import Cell

MakeCell = Callable[..., Cell]


def test_processors_are_not_shared_and_memory_counts(
    make_cell: MakeCell, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu = make_cell(device="cuda:0")
    monkeypatch.setattr(module, "memory_bytes", lambda: 128e9)
    monkeypatch.setattr(module, "cpu", lambda: type("Cpu", (), {"usable_cores": 16}))
    assert jobs_for([gpu, make_cell()]) == 1
    assert jobs_for([gpu]) == 8
    monkeypatch.setattr(module, "memory_bytes", lambda: 40e9)
    assert jobs_for([gpu]) == 3
    monkeypatch.setattr(module, "memory_bytes", lambda: 4e9)
    assert jobs_for([gpu]) == 1


def test_each_cell_gets_its_result_and_what_has_none_is_run(make_cell: MakeCell) -> None:
    cells = [make_cell(batch_size=size) for size in (1, 2, 3)]
    run: list[str] = []

    def fails() -> int:
        run.append("fails")
        raise ValueError("nobody asks")

    tasks = [(None, fails), *((cell, lambda cell=cell: cell.batch_size) for cell in cells)]
    found = {cell.key: size for cell, size in at_once(tasks, 2, lambda: None)}
    assert found == {cell.key: cell.batch_size for cell in cells}
    assert run == ["fails"]


def test_an_error_stops_the_others(make_cell: MakeCell) -> None:
    stopped = threading.Event()

    def fails() -> None:
        raise ValueError("broken")

    def waits() -> None:
        assert stopped.wait(10)

    tasks = [(make_cell(batch_size=1), waits), (make_cell(batch_size=2), fails)]
    with pytest.raises(ValueError, match="broken"):
        list(at_once(tasks, 2, stopped.set))
    assert stopped.is_set()


def test_each_has_its_share_of_the_cores(
    make_cell: MakeCell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "cpu", lambda: type("Cpu", (), {"usable_cores": 16}))
    cell = make_cell(threads=16)
    assert sharing(cell, 1) is cell
    assert sharing(cell, 5).threads == 6
    assert sharing(cell, 40).threads == 1
