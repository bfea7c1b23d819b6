"""`netdyno run` prepares the next trial ahead, and leaves it with --no-prepare-ahead."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from netdyno import turns
from netdyno.cli import measure
from netdyno.cli.run import command
from netdyno.store.run import read_run

AXES = ["--frameworks", "null", "--networks", "conv_l5:size=4", "--threads", "1", "--no-limits"]


@pytest.fixture(autouse=True)
def work(null_runs: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The null framework has a processor only: as if that were a GPU, and cores to spare."""
    monkeypatch.setattr(measure, "worthwhile", lambda cell, following: True)
    monkeypatch.setattr(turns, "preparations", lambda: 1)
    return null_runs


def called(*words: str) -> int:
    result = CliRunner().invoke(command, list(words), standalone_mode=False)
    if result.exception:
        raise result.exception
    assert isinstance(result.return_value, int)
    return result.return_value


def prepared(folder: Path) -> list[bool]:
    """Whether each trial was, in their order."""
    files = sorted((folder / "trials").iterdir())
    return ['"ready"' in file.read_text() for file in files]


@pytest.mark.parametrize(("words", "expected"), [((), True), (("--no-prepare-ahead",), False)])
def test_it_can_be_left_out(work: Path, words: tuple[str, ...], expected: bool) -> None:
    assert called(*AXES, "--batch-size", "1,2", "--rounds", "1", "--out", "here", *words) == 0
    assert prepared(work / "here") == [expected, expected]


def test_a_run_that_is_gone_on_with(work: Path) -> None:
    called(*AXES, "--batch-size", "1,2", "--rounds", "2", "--out", "half")
    folder = work / "half"
    files = sorted((folder / "trials").iterdir())
    for file in files[2:]:
        file.unlink()
    data: dict[str, Any] = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**data, "status": "interrupted"}))
    assert called("--resume", "half") == 0
    run = read_run(folder)
    good = [(trial.cell, trial.round) for trial in run.trials if trial.status == "ok"]
    assert sorted(good) == sorted((key, number) for key in run.cells for number in (1, 2))
    assert prepared(folder) == [True] * 4
