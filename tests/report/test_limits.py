"""How near a cell comes to what its device can do, on a device of round numbers."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from netdyno.networks import Network
from netdyno.networks.builder import Builder
from netdyno.plan.cell import Cell
from netdyno.report.limits import work_of
from netdyno.report.summary import Row, summary
from netdyno.report.table import print_run
from netdyno.store.run import Run, read_run
from tests.report.conftest import measured, trial

WriteRun = Callable[..., Path]
MakeCell = Callable[..., Cell]


def figure(name: str, value: float | None, precision: str | None = None, problem: str = "") -> Any:
    unit = {"product": "FLOP/s", "copy": "B/s"}[name]
    told = {"name": name, "precision": precision, "value": value, "unit": unit, "size": 1024}
    return {**told, "problem": problem}


def device(**changes: Any) -> dict[str, Any]:
    """A GFLOP and a GB a second, in fp32 alone."""
    return {
        "device": "cpu",
        "threads": 1,
        "framework": "pytorch",
        "status": "ok",
        "reason": "",
        "versions": {"pytorch": "2.13.0"},
        "figures": [
            figure("product", 1e9, "fp32"),
            figure("product", None, "fp64", "no such unit"),
            figure("copy", 1e9),
        ],
        **changes,
    }


@pytest.fixture
def dense() -> Network:
    """A batch of 2: 2·2·1000·2500 FLOP, 10 ms at a GFLOP a second, and about as many bytes."""
    net = Builder((1000, 1, 1))
    net.flatten()
    net.dense("dense", 2500)
    net.loss()
    return net.network("dense", options={}, source="")


@pytest.fixture
def run_of(write_run: WriteRun, make_cell: MakeCell, dense: Network) -> Callable[..., Run]:
    """``run_of(limits, **axes)``: one cell that took 20, 40 and 50 ms."""

    def make(limits: Any, **axes: Any) -> Run:
        how = {"network": dense, "network_spec": "dense", **axes}
        cell = make_cell(**how).to_json()
        blocks = trial(cell["key"], 1, measured(20, 40, 50))
        networks = {"dense": dense.to_json()}
        return read_run(write_run([cell], {"0001": blocks}, networks=networks, limits=limits))

    return make


RunOf = Callable[..., Run]


def row_of(run: Run) -> Row:
    (row,) = summary(run)
    return row


def printed(run: Run, width: int = 200) -> str:
    console = Console(file=io.StringIO(), width=width, highlight=False)
    print_run(run, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_cell_by_hand(run_of: RunOf) -> None:
    row = row_of(run_of([device()]))
    # Each pass reads and writes 4·(2·1000 + 1001·2500 + 2·2500) bytes = 10.038 MB, which takes
    # longer than 10 MFLOP do; images need no gradient. The update is 5·4·1001·2500 bytes.
    assert row.limit_seconds == {
        "forward": pytest.approx(0.010038),
        "forward_backward": pytest.approx(2 * 0.010038),
        "train_step": pytest.approx(2 * 0.010038 + 0.05005),
    }
    assert row.of_limit == pytest.approx(2 * 10.038 / 40)
    assert row.flop_per_second == pytest.approx(2 * 10e6 / 0.040)


def test_mixed_precision_updates_in_single(dense: Network) -> None:
    assert work_of(dense, 2, "bf16").update.bytes == work_of(dense, 2, "fp32").update.bytes
    assert work_of(dense, 2, "fp64").update.bytes == 2 * work_of(dense, 2, "fp32").update.bytes
    (single,), (half,) = (work_of(dense, 2, p).layers for p in ("tf32", "bf16"))
    assert half.forward.bytes * 2 == single.forward.bytes


@pytest.mark.parametrize(
    ("limits", "axes"),
    [
        (None, {}),
        ([], {}),
        ([device()], {"threads": 2}),
        ([device()], {"device": "cuda:0"}),
        ([device()], {"precision": "fp64"}),
        ([device(figures=[])], {}),
        ([device(figures=[figure("product", 1e9, "fp32")])], {}),
        ([device(figures=[figure("product", -1, "fp32"), figure("copy", 1e9)])], {}),
        ("odd", {}),
    ],
)
def test_no_figure_without_ceilings(run_of: RunOf, limits: Any, axes: dict[str, Any]) -> None:
    run = run_of(limits, **axes)
    row = row_of(run)
    assert (row.limit_seconds, row.of_limit, row.flop_per_second) == (None, None, None)
    text = printed(run)
    assert "40.00" in text
    assert "FLOP" not in text
    assert "of the limit" not in text


def test_columns_and_what_they_rest_on(run_of: RunOf) -> None:
    text = printed(run_of([device()]))
    (line,) = [line for line in text.splitlines() if " steady " in line]
    assert " 50% " in line
    assert "GFLOP" in text
    assert "TFLOP" not in text
    assert " 0.5 " in line
    said = "At most, cpu, 1 thread, with PyTorch 2.13.0: fp32 1 GFLOP/s, copy 1 GB/s"
    assert said in text
    assert "of the limit: the least time of forward+backward" in text


def test_a_mark_on_what_was_disturbed(run_of: RunOf) -> None:
    disturbed = {**figure("copy", 1e9), "disturbed": ["swapping"]}
    text = printed(run_of([device(figures=[figure("product", 1e9, "fp32"), disturbed])]))
    assert "‡ cpu may do more than this, measured while swapping." in text
    assert " 50% " in text


def test_a_gpu_is_told_in_tflops(run_of: RunOf) -> None:
    gpu = device(device="cuda:0", figures=[figure("product", 4e13, "fp32"), figure("copy", 4e12)])
    text = printed(run_of([gpu], device="cuda:0", threads=8))
    assert "TFLOP" in text
    assert "GFLOP" not in text
    assert "At most, cuda:0, with PyTorch 2.13.0: fp32 40 TFLOP/s, copy 4 TB/s" in text


def test_why_they_are_not_known(run_of: RunOf) -> None:
    failed = device(status="failed", reason="killed by signal 9", figures=[])
    said = "The limits of cpu, fp32 are not known: killed by signal 9"
    assert said in printed(run_of([failed]))


def test_why_a_precision_is_not_known(run_of: RunOf) -> None:
    said = "The limits of cpu, fp64 are not known: no such unit"
    assert said in printed(run_of([device()], precision="fp64"))


def test_they_are_the_first_columns_to_go(run_of: RunOf) -> None:
    run = run_of([device()])
    words = ("GFLOP", "of the", "faults")
    seen = [
        tuple(word in printed(run, width).split("±: half")[0] for word in words)
        for width in range(170, 90, -4)
    ]
    assert seen[0] == (True, True, True)
    assert (False, True, True) in seen
    assert (False, False, True) in seen
    assert seen[-1] == (False, False, False)
    assert seen == sorted(seen, reverse=True)
