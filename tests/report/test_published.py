"""A run's times beside the published ones, on runs made by hand."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from netdyno.networks.builder import Builder
from netdyno.plan.cell import Cell
from netdyno.report.published import LEAST, NOTHING, Sheet, page, published_json
from netdyno.report.published_table import print_published, published_markdown
from netdyno.store.run import Run, read_run
from tests.report.conftest import block, trial
from tests.report.test_limits import device

WriteRun = Callable[..., Path]
MakeCell = Callable[..., Cell]
Measured = tuple[dict[str, Any], Sequence[float] | str]

FASTER, SLOWER = (10.0, 10.1, 10.2), (20.0, 20.1, 20.2)


@pytest.fixture
def run_of(write_run: WriteRun) -> Callable[..., Run]:
    """``run_of((cell, ms of each process), (cell, "timed_out"), …)``; () is not measured."""

    def make(*measured: Measured, **fields: Any) -> Run:
        trials = {}
        for cell, times in measured:
            ends = [times] if isinstance(times, str) else times
            for number, end in enumerate(ends, 1):
                key, name = cell["key"], f"{len(trials):04}"
                if isinstance(end, str):
                    trials[name] = trial(key, number, [], end, "no reason")
                else:
                    trials[name] = trial(key, number, [block("forward_backward", end)] * 3)
        cells = [cell for cell, _ in measured]
        return read_run(write_run(cells, trials, **fields))

    return make


RunOf = Callable[..., Run]


@pytest.fixture
def vgg(make_cell: MakeCell) -> Callable[..., dict[str, Any]]:
    """A cell at the batch size at which convnet-benchmarks has the network."""

    def make(**axes: Any) -> dict[str, Any]:
        return make_cell(**{"network_spec": "vgg_a", "batch_size": 64, **axes}).to_json()

    return make


Vgg = Callable[..., dict[str, Any]]


def sheet_of(run: Run) -> Sheet:
    (sheet,) = page(run).sheets
    return sheet


def lines(sheet: Sheet) -> dict[tuple[str, str], list[str]]:
    """The texts of each line, by precision and name."""
    return {
        (line.precision, line.name): [figure.text for figure in line.figures]
        for section in sheet.sections
        for line in section.lines
    }


def bold(sheet: Sheet) -> list[tuple[str, str, int]]:
    return [
        (line.precision, line.name, column)
        for section in sheet.sections
        for line in section.lines
        for column, figure in enumerate(line.figures)
        if figure.fastest
    ]


def printed(run: Run, width: int = 200) -> str:
    console = Console(file=io.StringIO(), width=width, highlight=False)
    print_published(run, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_precisions_and_ways_in_the_order_asked(run_of: RunOf, vgg: Vgg) -> None:
    cells = [vgg(mode=m, precision=p) for m in ("steady", "drift") for p in ("tf32", "fp32")]
    found = [key for key in lines(sheet_of(run_of(*((cell, FASTER) for cell in cells)))) if key[0]]
    names = ("null (for tests) steady", "null (for tests) drift")
    assert found == [(p, name) for p in ("tf32", "fp32") for name in names]


def test_columns_in_the_order_of_the_run(run_of: RunOf, vgg: Vgg) -> None:
    wanted = [("vgg_a", 64), ("googlenet", 128), ("vgg_a", 32), ("resnet50", 256)]
    cells = [vgg(network_spec=name, batch_size=size) for name, size in wanted]
    sheet = sheet_of(run_of(*((cell, FASTER) for cell in cells)))
    assert sheet.columns == tuple(wanted)
    assert lines(sheet)["fp32", "null (for tests) steady"] == ["10.10 ± 2%"] * 4


def test_published_figures_stand_in_their_own_columns(run_of: RunOf, vgg: Vgg) -> None:
    cells = [vgg(), vgg(batch_size=32), vgg(batch_size=33), vgg(network_spec="vgg_a:lrn=on")]
    sheet = sheet_of(run_of(*((cell, ()) for cell in cells)))
    assert [section.heading for section in sheet.sections] == [
        None,
        ("convnet-benchmarks", "Titan X (Maxwell), Core i7-5930K"),
        ("MXNet paper, figure 6", "GTX 980"),
    ]
    of_convnet, of_paper = ([li.name for li in s.lines] for s in sheet.sections[1:])
    assert (len(of_convnet), len(of_paper)) == (13, 4)
    found = lines(sheet)
    assert found["", "CuDNN[R2]"] == ["1099", "", "", ""]
    assert found["", "MXNet"] == ["", "456", "", ""]


def test_libraries_without_a_figure_here_are_left_out(run_of: RunOf, vgg: Vgg) -> None:
    sheet = sheet_of(run_of((vgg(network_spec="googlenet", batch_size=128), ())))
    names = {name for precision, name in lines(sheet) if not precision}
    assert "Nervana-neon-fp32" in names
    assert "fbfft (Torch)" not in names


def test_what_has_no_time_says_why(run_of: RunOf, vgg: Vgg) -> None:
    run = run_of(
        (vgg(), ["timed_out", "timed_out", "failed"]), (vgg(mode="drift"), ()), (vgg(mode="x"), [5])
    )
    found = lines(sheet_of(run))
    assert found["fp32", "null (for tests) steady"] == ["timed out"]
    assert found["fp32", "null (for tests) drift"] == ["-"]
    assert found["fp32", "null (for tests) x"] == ["5.00 ±  ?"]
    assert "?: a single process has no interval." in page(run).notes


def test_unverified_ones_are_marked(run_of: RunOf, vgg: Vgg) -> None:
    good, doubtful = vgg(), vgg(mode="drift")
    verification = {good["key"]: {"passed": True}}
    run = run_of((good, SLOWER), (doubtful, FASTER), verification=verification)
    found = lines(sheet_of(run))
    assert found["fp32", "null (for tests) steady"] == ["20.10 ± 1%"]
    assert found["fp32", "null (for tests) drift"] == ["10.10 ± 2% †"]
    assert any(note.startswith("†: NOT VERIFIED") for note in page(run).notes)
    # Nobody vouches for the fastest one.
    assert not bold(sheet_of(run))


def test_no_mark_without_need(run_of: RunOf, vgg: Vgg) -> None:
    notes = "\n".join(page(run_of((vgg(), FASTER))).notes)
    assert not re.search("[†‡?]", notes)


def test_the_fastest_stands_out(run_of: RunOf, vgg: Vgg) -> None:
    ways = {"steady": SLOWER, "drift": FASTER}
    measured = [
        (vgg(mode=m, precision=p, batch_size=b), times)
        for p in ("fp32", "bf16")
        for b in (64, 32)
        for m, times in ways.items()
    ]
    name = "null (for tests) drift"
    assert bold(sheet_of(run_of(*measured))) == [
        (p, name, c) for p in ("fp32", "bf16") for c in (0, 1)
    ]


@pytest.mark.parametrize("others", [[], [FASTER], [(10.2, 10.0, 10.3), SLOWER]])
def test_none_stands_out_that_is_not_told_apart_from_the_next(
    run_of: RunOf, vgg: Vgg, others: list[Any]
) -> None:
    measured = [(vgg(mode=f"m{i}"), times) for i, times in enumerate([FASTER, *others])]
    assert not bold(sheet_of(run_of(*measured)))


def test_a_layout_is_told_where_there_are_several(run_of: RunOf, vgg: Vgg) -> None:
    cells = [vgg(), vgg(layout="nhwc"), vgg(mode="drift", autotune="off")]
    found = lines(sheet_of(run_of(*((cell, FASTER) for cell in cells))))
    names = [name for precision, name in found if precision]
    assert names == [
        f"null (for tests) {way}" for way in ("steady nchw", "steady nhwc", "drift untuned")
    ]


def test_the_least_time_stands_below_its_precision(run_of: RunOf, vgg: Vgg) -> None:
    net = Builder((1000, 1, 1))
    net.flatten()
    net.dense("dense", 2500)
    net.loss()
    dense = net.network("vgg_a", options={}, source="")
    cells = [vgg(network=dense, batch_size=2, precision=p) for p in ("fp32", "bf16")]
    networks = {"vgg_a": dense.to_json()}
    run = run_of(*((cell, FASTER) for cell in cells), networks=networks, limits=[device()])
    fp32, bf16 = sheet_of(run).sections
    # Worked out in test_limits.py.
    assert (fp32.lines[-1].name, fp32.lines[-1].figures[0].text) == (LEAST, "20.08")
    assert not fp32.lines[-1].measured
    assert [line.name for line in bf16.lines] == ["null (for tests) steady"]


def test_a_sheet_for_each_device_and_number_of_threads(run_of: RunOf, vgg: Vgg) -> None:
    host = {"cpu": {"model": "Abacus 1"}, "gpus": [{"name": "NVIDIA H200"}]}
    cells = [vgg(), vgg(threads=2), vgg(device="cuda:0"), vgg(host_allocator="retain")]
    run = run_of(*((cell, FASTER) for cell in cells), host=host)
    assert [sheet.title for sheet in page(run).sheets] == [
        "forward+backward in ms on cpu (Abacus 1), 1 thread, system allocator",
        "forward+backward in ms on cpu (Abacus 1), 2 threads, system allocator",
        "forward+backward in ms on cuda:0 (NVIDIA H200)",
        "forward+backward in ms on cpu (Abacus 1), 1 thread, retain allocator",
    ]
    assert "Measured on 2026-01-01, on Abacus 1, NVIDIA H200, by netdyno 0.0." in page(run).notes


def test_notes_say_what_may_not_be_concluded(run_of: RunOf, vgg: Vgg) -> None:
    text = printed(run_of((vgg(), FASTER), (vgg(batch_size=32), FASTER)))
    for words in (
        "is not ranked together with them",
        "dropout and softmax left out",
        "± 0.5 ms",
        "soumith/convnet-benchmarks at b458aab",
        "arxiv.org/abs/1512.01274",
    ):
        assert words in text
    assert NOTHING not in text


def test_a_run_of_nothing_that_was_published(run_of: RunOf, vgg: Vgg) -> None:
    run = run_of((vgg(network_spec="resnet50", batch_size=256), FASTER))
    text = printed(run)
    assert text.count(NOTHING) == 1
    assert "10.10 ± 2%" in text
    assert "convnet-benchmarks" not in text
    assert NOTHING in published_markdown(run)
    assert published_json(run) == []


def test_as_plain_data(run_of: RunOf, vgg: Vgg) -> None:
    run = run_of((vgg(), FASTER), (vgg(mode="drift"), FASTER))
    found = published_json(run)
    assert len(found) == 13
    assert {(f["network"], f["batch_size"], f["source"]) for f in found} == {
        ("vgg_a", 64, "convnet-benchmarks")
    }
    assert found[0]["total_seconds"] == 0.254


def test_a_narrow_terminal_gets_more_tables_and_whole_ones(run_of: RunOf, vgg: Vgg) -> None:
    wanted = [("vgg_a", 64), ("vgg_a", 32), ("googlenet", 128), ("resnet50", 256)]
    run = run_of(*((vgg(network_spec=n, batch_size=b), FASTER) for n, b in wanted))
    counts = []
    for width in (200, 90, 60):
        text = printed(run, width)
        assert "…" not in text
        assert text.count("10.10 ± 2%") == 4
        assert text.count("1099") == 1
        counts.append(text.count("forward+backward in ms on cpu"))
    assert counts == sorted(set(counts))
    # In the last one there is nothing that was published.
    assert "CuDNN" not in printed(run, 60).split("resnet50")[1].split("±: half")[0]


def test_markdown(run_of: RunOf, vgg: Vgg) -> None:
    run = run_of((vgg(), FASTER), (vgg(mode="drift"), SLOWER), (vgg(batch_size=32), "failed"))
    found = published_markdown(run).splitlines()
    assert found[:8] == [
        "### forward+backward in ms on cpu, 1 thread",
        "",
        "|  |  | vgg_a b64 | vgg_a b32 |",
        "|---|---|---:|---:|",
        "| fp32 | null (for tests) steady | **10.10 ± 2%** | failed |",
        "| fp32 | null (for tests) drift | 20.10 ± 1% | - |",
        "|  | **convnet-benchmarks: Titan X (Maxwell), Core i7-5930K** |  |  |",
        "|  | Nervana-neon-fp16 | 254 |  |",
    ]
    assert found[-1].startswith("- MXNet paper, figure 6: read off")


@pytest.mark.parametrize("axis", ["framework", "mode", "network", "precision", "device"])
@pytest.mark.parametrize("name", ["[bold]x", "x[/]", "x\\", "a|b <b>", "a\\|b", "a`b\x1b[31m"])
def test_no_name_is_obeyed(run_of: RunOf, vgg: Vgg, axis: str, name: str) -> None:
    run = run_of((vgg(), FASTER), ({**vgg(), "key": "odd", axis: name}, FASTER))
    text = printed(run)
    assert name.replace("\x1b", " ") in text
    found = published_markdown(run)
    assert "\x1b" not in text + found
    assert "<b>" not in found
    for table in found.split("### ")[1:]:
        rows = [line for line in table.splitlines() if line.startswith("|")]
        # What is escaped ends no column.
        assert len({re.sub(r"\\.", "", row).count("|") for row in rows}) == 1
