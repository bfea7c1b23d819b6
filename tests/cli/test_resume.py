"""`netdyno run --resume`: what an interrupted run lacks, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from netdyno.cli import measure
from netdyno.cli.bench import Bench
from netdyno.cli.run import command
from netdyno.errors import NetdynoError
from netdyno.plan.cell import Cell
from netdyno.store.run import read_run

AXES = ["--frameworks", "null", "--networks", "conv_l5:size=4", "--threads", "1"]


@pytest.fixture(autouse=True)
def work(null_runs: Path) -> Path:
    return null_runs


def called(*words: str) -> Result:
    result = CliRunner().invoke(command, list(words), standalone_mode=False)
    if result.exception:
        raise result.exception
    return result


@pytest.fixture
def half(work: Path) -> Path:
    """Of two rounds of two cells, three trials: the third was cut off."""
    called(*AXES, "--batch-size", "1,2", "--rounds", "2", "--out", "half")
    folder = work / "half"
    files = sorted((folder / "trials").iterdir())
    files[3].unlink()
    lines = files[2].read_text().splitlines(keepends=True)
    files[2].write_text("".join(line for line in lines if '"outcome"' not in line))
    data = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**data, "status": "interrupted"}))
    return folder


def test_only_what_is_missing_is_measured(half: Path) -> None:
    before = {path.name: path.read_text() for path in (half / "trials").iterdir()}
    assert called("--resume", "half").return_value == 0
    run = read_run(half)
    good = [(trial.cell, trial.round) for trial in run.trials if trial.status == "ok"]
    assert sorted(good) == sorted((key, number) for key in run.cells for number in (1, 2))
    assert len(run.trials) == 4  # the one that was cut off has been made again
    for name, text in before.items():
        assert (half / "trials" / name).read_text() == text
    assert run.data["status"] == "complete"
    assert len(run.data["resumed"]) == 1


def test_a_finished_run_has_nothing_left(work: Path) -> None:
    called(*AXES, "--batch-size", "1", "--rounds", "1", "--out", "done")
    assert called("--resume", "done").return_value == 0
    assert len(read_run(work / "done").trials) == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--rounds", "5"], "leave --rounds out"),
        (["--networks", "vgg_a"], "leave --networks out"),
        (["--out", "there"], "leave --out out"),
        (["matrix.toml"], "leave matrix.toml out"),
    ],
)
def test_what_was_asked_stands(half: Path, words: list[str], message: str) -> None:
    with pytest.raises(NetdynoError, match=message):
        called("--resume", "half", *words)


def test_a_budget_is_that_of_this_part(half: Path) -> None:
    assert called("--resume", "half", "--budget", "10m").return_value == 0
    assert read_run(half).data["status"] == "complete"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"netdyno": "0.0.1"}, r"was begun by netdyno 0\.0\.1"),
        ({"host": {"id": "0123456789ab", "cpu": {"model": "abacus"}}}, "on another machine"),
        ({"max_batch": {}}, "is a search for the largest batch"),
        ({"request": {"colour": "blue"}}, "what was asked cannot be read"),
        ({"cells": [{"key": "x", "network": "nowhere"}]}, "its cells cannot be read"),
    ],
)
def test_a_run_that_cannot_be_gone_on_with(
    half: Path, change: dict[str, Any], message: str
) -> None:
    data = json.loads((half / "run.json").read_text())
    (half / "run.json").write_text(json.dumps({**data, **change}))
    with pytest.raises(NetdynoError, match=message):
        called("--resume", "half")


def test_no_such_run() -> None:
    with pytest.raises(NetdynoError, match="nowhere does not exist"):
        called("--resume", "nowhere")


def test_a_matrix_of_parts_is_gone_on_with_as_it_was(work: Path) -> None:
    """An option wins over every part of it."""
    (work / "matrix.toml").write_text(
        "rounds = 1\nbatch_size = 1\n"
        "[[matrix]]\nnetworks = 'conv_l5:size=4'\nframeworks = 'mxnet'\n"
        "[[matrix]]\nnetworks = 'conv_l3:size=12'\nbatch_size = 2\n"
    )
    options = ["--frameworks", "null", "--threads", "1", "--out", "parts"]
    assert called("matrix.toml", *options).return_value == 0
    (last,) = (work / "parts" / "trials").glob("0002*")
    last.unlink()
    assert called("--resume", "parts").return_value == 0
    run = read_run(work / "parts")
    assert [(cell["network"], cell["batch_size"]) for cell in run.cells.values()] == [
        ("conv_l5:size=4", 1),
        ("conv_l3:size=12", 2),
    ]
    assert len(run.trials) == 2


def test_what_is_finished_is_not_verified_again(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was by the part that measured it; what verifies may have changed since."""
    called(*AXES, "--batch-size", "1,2", "--rounds", "1", "--out", "part")
    (_, last) = sorted((work / "part" / "trials").iterdir())
    last.unlink()
    seen: list[str] = []

    def watching(cells: list[Cell], running: Bench) -> dict[str, str]:
        seen.extend(cell.key for cell in cells)
        return {}

    monkeypatch.setattr(measure, "verify", watching)
    ((finished, _),) = read_run(work / "part").done
    assert called("--resume", "part").return_value == 0
    assert seen == [key for key in read_run(work / "part").cells if key != finished]
