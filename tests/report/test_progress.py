"""What is seen while a run goes on, where there is no terminal."""

from __future__ import annotations

import io
from collections.abc import Callable

from rich.console import Console

from netdyno.outcome import Outcome
from netdyno.plan.cell import Cell
from netdyno.report.progress import RunProgress


def shown(cell: Cell, *outcomes: Outcome) -> str:
    console = Console(file=io.StringIO(), width=40)
    with RunProgress(console, len(outcomes), 200.0) as progress:
        for number, outcome in enumerate(outcomes, start=1):
            progress.trial_started(cell, number, len(outcomes) - number + 1, 200.0)
            progress.event({"event": "started"})
            progress.event({"event": "block", "kind": "first", "phase": "forward"})
            progress.event({"event": "block", "kind": "first", "phase": 3})
            progress.trial_ended(outcome)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_one_line_a_trial(make_cell: Callable[..., Cell]) -> None:
    cell = make_cell(network_spec="[b]odd")
    text = shown(cell, Outcome("ok", "", 20.0), Outcome("timed_out", "still [red]there", 1.0))
    assert text.splitlines() == [
        "[1/2] round 1: null steady, [b]odd b2: 20.0 s, about 3 min left",
        "round 2: null steady, [b]odd b2: timed out: still [red]there",
    ]


def test_time_left_is_never_negative(make_cell: Callable[..., Cell]) -> None:
    ended = Outcome("ok", "", 9e9)
    first, last = shown(make_cell(), ended, ended).splitlines()
    assert first.endswith("about 0 s left")
    assert "left" not in last
