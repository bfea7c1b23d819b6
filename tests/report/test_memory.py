"""Tables of memory, from run folders that are made by hand."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from netdyno.memory import plan
from netdyno.plan.cell import Cell
from netdyno.report.max_batch import largest_batches, max_batch_json, print_max_batch
from netdyno.report.memory import memory_json, memory_rows
from netdyno.report.memory_table import megabytes, print_memory
from netdyno.report.summary import summary
from netdyno.store.run import Run, read_run

WriteRun = Callable[..., Path]
MakeCell = Callable[..., Cell]


def memory_event(phase: str, **fields: Any) -> dict[str, Any]:
    return {
        "event": "memory",
        "phase": phase,
        "internal_bytes": 4_000_000,
        "kind": "static plan",
        "source": "plan()",
        "remark": "",
        "observed_bytes": 4_100_000,
        "observed_source": "memray 0",
        "observed_problem": "",
        "process_bytes": 50_000_000,
        "device_bytes": None,
        **fields,
    }


def trial(cell: Cell, *events: dict[str, Any], status: str = "ok", reason: str = "") -> Any:
    return [
        {"event": "trial", "cell": cell.key, "round": 1, "measures": "memory"},
        *events,
        {"event": "outcome", "status": status, "reason": reason, "seconds": 1.0},
    ]


@pytest.fixture
def run_of(write_run: WriteRun) -> Callable[..., Run]:
    def make(cells: list[Cell], trials: list[Any], **fields: Any) -> Run:
        networks = {cell.network_spec: cell.network.to_json() for cell in cells}
        named = {f"{number:04d}": events for number, events in enumerate(trials)}
        folder = write_run(
            [json.loads(json.dumps(c.to_json())) for c in cells],
            named,
            networks=json.loads(json.dumps(networks)),
            **fields,
        )
        return read_run(folder)

    return make


def printed(run: Run, how: Callable[[Run, Console], None] = print_memory) -> str:
    out = io.StringIO()
    how(run, Console(file=out, width=200))
    return out.getvalue()


def test_a_row_for_each_phase(run_of: Callable[..., Run], make_cell: MakeCell) -> None:
    cell = make_cell()
    run = run_of([cell], [trial(cell, memory_event("forward"), memory_event("train_step"))])
    rows = memory_rows(run)
    assert [row.phase for row in rows] == ["forward", "train_step"]
    first = rows[0]
    assert first.memory
    assert first.memory.internal_bytes == 4_100_000
    assert first.bytes_per_image == 2_050_000
    assert first.other_bytes == 50_000_000 - 4_100_000 - first.arrays.total
    assert first.verified
    assert run.trials == ()


def test_json_has_the_planner(run_of: Callable[..., Run], make_cell: MakeCell) -> None:
    cell = make_cell()
    run = run_of([cell], [trial(cell, memory_event("forward_backward"))])
    (found,) = memory_json(run)["cells"]
    expected = plan(cell.network, batch_size=2, training=True, strategy="naive").internal_bytes
    assert found["planned_bytes"]["naive"] == expected
    assert found["planned_bytes"]["lower bound"] <= expected
    assert found["memory"]["source"] == "plan()"
    json.dumps(found, allow_nan=False)


def test_table(run_of: Callable[..., Run], make_cell: MakeCell) -> None:
    cell = make_cell()
    text = printed(run_of([cell], [trial(cell, memory_event("forward"))]))
    assert "tiny, batch 2  (cpu, fp32)" in text
    assert "4.1 " in text
    assert "lower bound" in text
    assert "static plan, plan()" in text
    assert "≠" not in text
    assert "†" not in text


def test_a_difference_is_explained(run_of: Callable[..., Run], make_cell: MakeCell) -> None:
    cell = make_cell()
    events = [
        memory_event("forward", internal_bytes=2_050_000, remark="scratch is left out"),
        memory_event("forward_backward", internal_bytes=8_200_000),
    ]
    text = printed(run_of([cell], [trial(cell, *events)]))
    assert "forward, tiny: -50%: scratch is left out" in text
    assert "forward+backward, tiny: +100%: not explained" in text


def test_what_failed_is_shown(run_of: Callable[..., Run], make_cell: MakeCell) -> None:
    cell = make_cell()
    events = trial(cell, memory_event("forward"), status="out_of_memory", reason="no more")
    run = run_of([cell], [events])
    text = printed(run)
    assert "out of memory" in text
    assert "no more" in text
    assert "4.1 " in text  # what was measured before is kept


def test_not_verified(run_of: Callable[..., Run], make_cell: MakeCell) -> None:
    cell = make_cell()
    run = run_of([cell], [trial(cell, memory_event("forward"))], verification={})
    assert "NOT VERIFIED" in printed(run)


def test_markup_in_a_shared_folder(run_of: Callable[..., Run], make_cell: MakeCell) -> None:
    cell = make_cell(mode="[bold]x")
    text = printed(run_of([cell], [trial(cell, memory_event("forward", source="[red]y"))]))
    assert "[bold]x" in text
    assert "[red]y" in text


def test_beside_times(run_of: Callable[..., Run], make_cell: MakeCell) -> None:
    cell = make_cell()
    run = run_of([cell], [trial(cell, memory_event("forward_backward"))])
    (row,) = summary(run)
    assert row.internal_bytes == 4_100_000
    assert row.total_bytes == 50_000_000
    assert row.trials == {}


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (0, "0"), (1234, "0.00123"), (5.4321e6, "5.43"), (2e9, "2,000")],
)
def test_megabytes(value: float | None, text: str) -> None:
    assert megabytes(value) == text


SEARCH = {"phase": "train_step", "limit_bytes": 10**9, "most": 65_536}


@pytest.fixture
def searched(run_of: Callable[..., Run], make_cell: MakeCell) -> Callable[..., Run]:
    """``searched({8: "ok", 9: "out_of_memory"})``."""

    def make(tried: dict[int, str]) -> Run:
        cells = [make_cell(batch_size=size) for size in tried]
        trials = [
            trial(
                cell,
                *([memory_event("train_step")] if status == "ok" else []),
                status=status,
                reason="" if status == "ok" else "told to",
            )
            for cell, status in zip(cells, tried.values(), strict=True)
        ]
        return run_of(cells, trials, max_batch=SEARCH)

    return make


def test_largest_batch(searched: Callable[..., Run]) -> None:
    run = searched({4: "ok", 8: "ok", 16: "out_of_memory", 9: "out_of_memory"})
    (found,) = largest_batches(run)
    assert found.batch_size == 8
    assert found.exact
    assert found.ok
    assert found.total_bytes == 50_000_000
    assert max_batch_json(run)["searches"][0]["tried"] == {
        "4": "ok",
        "8": "ok",
        "9": "out_of_memory",
        "16": "out_of_memory",
    }
    text = printed(run, print_max_batch)
    assert "≥" not in text
    assert "NOT VERIFIED" not in text


def test_an_unverified_search_says_so(run_of: Callable[..., Run], make_cell: MakeCell) -> None:
    cell = make_cell(batch_size=1)
    events = trial(cell, memory_event("train_step"))
    run = run_of([cell], [events], max_batch=SEARCH, verification={})
    assert not largest_batches(run)[0].verified
    assert "NOT VERIFIED" in printed(run, print_max_batch)


def test_a_search_that_ended_early(searched: Callable[..., Run]) -> None:
    (found,) = largest_batches(searched({4: "ok", 16: "out_of_memory"}))
    assert not found.ok


def test_a_crash_is_no_answer(searched: Callable[..., Run]) -> None:
    run = searched({4: "ok", 5: "failed"})
    assert not largest_batches(run)[0].ok
    assert "the search ended by failed: told to" in printed(run, print_max_batch)


def test_nothing_fits(searched: Callable[..., Run]) -> None:
    run = searched({1: "out_of_memory"})
    (found,) = largest_batches(run)
    assert found.batch_size is None
    assert found.ok
    assert "none" in printed(run, print_max_batch)
