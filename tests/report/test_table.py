"""The table, as it comes out where there is no terminal."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from netdyno.report.table import print_run
from netdyno.store.run import Run, read_run
from tests.report.conftest import measured, trial

WriteRun = Callable[..., Path]


def rendered(run: Run, **options: Any) -> str:
    console = Console(file=io.StringIO(), width=200, highlight=False, **options)
    print_run(run, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def line_of(text: str, word: str) -> str:
    (line,) = [line for line in text.splitlines() if f" {word} " in line]
    return line


def test_figures(run: Run) -> None:
    line = " ".join(line_of(rendered(run), "steady").split())
    # Rank; forward, backward, both, times the fastest, train step; images a second; first
    # iteration; faults; trials. Intervals of three processes: 43 % of 12, 12 % of 42, 28 % of 45.
    assert line == (
        "1 null (for tests) steady 12.00 ±43% 30 42.00 ±12% 1 45.00 ±28% 88.9 2.10 100 "
        "3 ok, 1 timed out"
    )


def test_heading_says_what_all_cells_share(run: Run) -> None:
    heading = rendered(run).splitlines()[0]
    assert heading.strip() == "tiny, batch 4 (cpu, fp32, 1 thread, system allocator)".replace(
        "4 (", "4  ("
    )


def test_no_figure_beside_a_failure(run: Run) -> None:
    text = rendered(run)
    assert line_of(text, "hang").split() == [
        *(["null", "(for", "tests)", "hang"]),
        *("-" * 8),
        *(["1", "failed,", "1", "out", "of", "memory"]),
    ]
    assert line_of(text, "drift").rstrip().endswith("none")


def test_a_row_that_was_not_verified_is_marked(write_run: WriteRun, good: dict[str, Any]) -> None:
    trials = {"0001": trial(good["key"], 1, measured(10, 30, 40))}
    unverified = rendered(read_run(write_run([good], trials, verification={})))
    assert "steady †" in unverified
    assert "NOT VERIFIED" in unverified


def test_verified_rows_carry_no_mark(run: Run) -> None:
    assert "†" not in rendered(run)


def test_reasons_are_told_whole(run: Run, good: dict[str, Any], bad: dict[str, Any]) -> None:
    text = rendered(run)
    assert f"{bad['key']}: RuntimeError: [red]no[/]" in text
    assert f"{good['key']}: still running after 9 s" in text


def test_remarks(run: Run) -> None:
    text = rendered(run)
    assert "±: half of the 95 % interval, over processes." in text
    assert "*: forward+backward less forward" in text
    assert "null: null 1, blas 0.3" in text
    assert text.count("drew its own masks") == 1
    assert "This run ended when its budget was spent." in text


def test_nothing_but_text_without_a_terminal(run: Run) -> None:
    assert "\x1b" not in rendered(run)


def test_no_colour_on_a_terminal_that_wants_none(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    text = rendered(run, force_terminal=True, color_system="standard")
    for colour in ("\x1b[31m", "\x1b[33m", ";31m", ";33m"):
        assert colour not in text


def odd_run(write_run: WriteRun, cell: dict[str, Any], **axes: str) -> Run:
    odd = {**cell, "key": "odd", **axes}
    versions = {"[b]lib": "[/b]1"}
    events = [
        {"event": "trial", "cell": odd["key"], "round": 1},
        {"event": "fingerprint", "versions": versions, "notes": ["[i]note"]},
        {"event": "outcome", "status": "ok", "reason": ""},
    ]
    worse = [events[0], {"event": "outcome", "status": "failed", "reason": "[u]reason"}]
    return read_run(write_run([cell, odd], {"0001": events, "0002": worse}))


@pytest.mark.parametrize(
    "axis", ["framework", "mode", "network", "precision", "device", "host_allocator", "key"]
)
@pytest.mark.parametrize("name", ["[bold]x", "x[/]", "x\\"])
def test_markup_in_a_name_is_shown_not_obeyed(
    write_run: WriteRun, good: dict[str, Any], axis: str, name: str
) -> None:
    text = rendered(odd_run(write_run, good, **{axis: name}))
    assert name in text
    for remark in ("[b]lib [/b]1", "[i]note", "[u]reason"):
        assert remark in text


def test_escape_codes_in_a_reason_do_not_reach_the_reader(
    write_run: WriteRun, good: dict[str, Any]
) -> None:
    """Frameworks colour their errors; a terminal would obey whatever they print."""
    events = [
        {"event": "trial", "cell": good["key"], "round": 1},
        {
            "event": "outcome",
            "status": "failed",
            "reason": "\x1b[31mred\x1b[0m and \x1b]0;title\x07",
        },
    ]
    text = rendered(read_run(write_run([good], {"0001": events})))
    assert "\x1b" not in text
    assert "red" in text


def test_a_table_for_all_that_may_be_ranked_together(
    write_run: WriteRun, make_cell: Callable[..., Any]
) -> None:
    cells = [
        make_cell(batch_size=n, threads=t, mode=m).to_json()
        for n in (1, 8)
        for t in (1, 2)
        for m in ("steady", "drift")
    ]
    lines = rendered(read_run(write_run(cells, {}))).splitlines()
    headings = [" ".join(line.split()) for line in lines if "batch" in line]
    assert headings == [
        f"tiny, batch {n} (cpu, fp32, {t}, system allocator)"
        for n in (1, 8)
        for t in ("1 thread", "2 threads")
    ]


def test_a_run_that_has_not_measured_anything(write_run: WriteRun, good: dict[str, Any]) -> None:
    text = rendered(read_run(write_run([good], {}, status="interrupted")))
    assert "none" in line_of(text, "steady")
    assert "This run was interrupted." in text


@pytest.mark.parametrize("width", [100, 130, 200])
def test_a_narrow_terminal_gets_fewer_columns_and_whole_ones(run: Run, width: int) -> None:
    console = Console(file=io.StringIO(), width=width, highlight=False)
    print_run(run, console)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "…" not in text.split("±: half")[0]
    assert ("faults" in text) == (width == 200)
    assert "42.00 ±12%" in text
