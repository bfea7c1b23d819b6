"""How runs over time are drawn; what is said of them is in tests/cli/test_history.py."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from rich.console import Console

from netdyno.history import series_of
from netdyno.report.history import print_history, sparkline
from netdyno.store.query import Measurement

KEY = "pytorch/eager/alexnet_owt/b32/fp32/nchw/cpu/t2/system"


def rendered(width: int, runs: int = 10) -> str:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    measured = [
        Measurement(Path("r"), start + timedelta(days=i), KEY, "", (1.0 + i % 2 / 1e3,), "0", True)
        for i in range(runs)
    ]
    console = Console(file=io.StringIO(), width=width, highlight=False)
    print_history(series_of(measured), "train_step", console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize("width", [80, 120, 200])
def test_nothing_is_lost_on_a_narrow_terminal(width: int) -> None:
    lines = rendered(width).splitlines()
    assert lines[0].strip() == "train step"
    table = lines[: lines.index(next(line for line in lines if line.startswith("latest:")))]
    assert max(map(len, table)) <= width
    # A cell's name may go on in the next line of its column, which is the first.
    assert "".join(line.split("  ")[0].strip() for line in table[5:]) == KEY
    assert any("2026-01-10" in line and "1001" in line for line in table)


def test_too_few_runs_to_show_a_change() -> None:
    assert "too few: fewer than 8 runs" in rendered(200, runs=7)
    assert "too few" not in rendered(200, runs=8)


@pytest.mark.parametrize(
    ("seconds", "width", "bars"),
    [
        ([1.0], 8, "▁"),
        ([1.0, 1.0, 1.0], 8, "▁▁▁"),
        ([1.0, 2.0, 4.0, 128.0], 8, "▁▂▃█"),
        ([128.0, 1.0], 8, "█▁"),
        # Noise is drawn as noise: 5 % is the whole height.
        ([1.0, 1.005, 1.0], 8, "▁▂▁"),
        # Two neighbours share a bar, whose height is their median.
        ([1.0, 1.0, 10.0, 10.0], 2, "▁█"),
        ([1.0, 1.0, 9.0, 1.0, 1.0, 1.0], 2, "▁▁"),
    ],
)
def test_sparkline(seconds: list[float], width: int, bars: str) -> None:
    assert sparkline(seconds, width) == bars
