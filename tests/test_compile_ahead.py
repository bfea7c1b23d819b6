"""What is compiled before the trials: kept for who goes on with an interrupted run."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from netdyno import compile_ahead as module
from netdyno.compile_ahead import compile_ahead
from netdyno.environments import Environment
from netdyno.outcome import Outcome
from netdyno.plan.cell import Cell
from netdyno.plan.request import Request
from netdyno.redact import Redactor

MakeCell = Callable[..., Cell]


@pytest.fixture
def compiled(
    monkeypatch: pytest.MonkeyPatch, here: Environment, tmp_path: Path
) -> Callable[..., Any]:
    """``compiled(cells)`` is the context; what is compiled is a file ``made``, and noted."""

    def run_trial(
        cell: Cell, environment: Environment, job: Any, *rest: Any, **how: Any
    ) -> Outcome:
        (Path(job["compile_cache"]) / "made").touch()
        noted.append(cell.batch_size)
        return Outcome("failed", "") if cell.mode == "raise" else Outcome("ok", "")

    noted: list[int] = []
    monkeypatch.setattr(module, "run_trial", run_trial)

    def compiled(cells: Sequence[Cell]) -> Any:
        noted.clear()
        parent = tmp_path / "home" / "run"
        return compile_ahead(cells, Request(), {"null": here}, Redactor({}), parent, 1)

    compiled.noted = noted  # type: ignore[attr-defined]
    return compiled


def test_nothing_is_left_of_a_run_that_ended(
    compiled: Any, make_cell: MakeCell, tmp_path: Path
) -> None:
    with compiled([make_cell()]) as found:
        assert [(folder / "made").exists() for folder in found.values()] == [True]
    assert list((tmp_path / "home").iterdir()) == []


def test_who_goes_on_compiles_only_what_is_missing(compiled: Any, make_cell: MakeCell) -> None:
    cells = [make_cell(batch_size=size) for size in (1, 2, 3)]
    failing = make_cell(batch_size=4, mode="raise")
    with pytest.raises(KeyboardInterrupt), compiled([cells[0], failing]):
        raise KeyboardInterrupt
    with compiled([*cells, failing]) as found:
        assert set(found) == {cell.key for cell in cells}
        assert all((folder / "made").exists() for folder in found.values())
        assert compiled.noted == [2, 3, 4]  # what failed is tried again
    with compiled(cells):
        assert compiled.noted == [1, 2, 3]


def test_what_nobody_goes_on_with_is_removed(
    compiled: Any, make_cell: MakeCell, tmp_path: Path
) -> None:
    old, new = (tmp_path / "home" / name for name in ("old", "new"))
    for folder in (old, new):
        folder.mkdir(parents=True)
    os.utime(old, (1, 1))
    with compiled([make_cell()]):
        assert not old.exists()
        assert new.exists()
