"""What a person is told of a cell's figures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from netdyno.plan.cell import Cell
from netdyno.report.advice import advice
from netdyno.store.run import read_run
from tests.report.conftest import block, trial

WriteRun = Callable[..., Path]


@pytest.mark.parametrize(
    ("device", "launching", "told"),
    [
        ("cuda:0", 0.97, True),
        ("cuda:0", 0.5, False),
        ("cuda:0", None, False),  # of an older version
        ("cpu", 1.0, False),  # as it always is
    ],
)
def test_a_gpu_that_waits_for_the_processor(
    make_cell: Callable[..., Cell],
    write_run: WriteRun,
    device: str,
    launching: float | None,
    told: bool,
) -> None:
    cell = make_cell(device=device).to_json()

    def timed(milliseconds: float) -> Any:
        found = block("forward_backward", milliseconds)
        if launching is not None:
            found["launch_seconds"] = launching * found["seconds"]
        return found

    events = [timed(figure) for figure in (10.0, 10.1, 9.9, 10.0)]
    run = read_run(write_run([cell], {"0001": trial(cell["key"], 1, events)}))
    found = [text for text in advice(run, cell["key"]) if "the GPU waits" in text]
    assert bool(found) is told
    if told:
        assert found[0].startswith("forward+backward: 97% of the time passed before all work was")
