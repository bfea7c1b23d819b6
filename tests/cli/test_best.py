"""`netdyno run --modes best`, on the null framework, whose modes behave as they are told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from netdyno.cli.run import command
from netdyno.errors import NetdynoError
from netdyno.plan.best import choices
from netdyno.plan.request import Request
from netdyno.store.run import read_run

AXES = ["--frameworks", "null", "--networks", "conv_l5:size=4", "--batch-size", "1"]


@pytest.fixture(autouse=True)
def work(null_runs: Path) -> Path:
    return null_runs


def called(*words: str) -> Result:
    result = CliRunner().invoke(command, [*AXES, *words], standalone_mode=False)
    if result.exception:
        raise result.exception
    return result


def test_the_fastest_is_measured_beside_the_default(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = {"steady": 3.0, "drift": 1.0, "leak": 2.0}

    def tried(runner: Any, cell: Any, progress: Any, rest: Any) -> float | None:
        return seconds.get(cell.mode)

    monkeypatch.setattr("netdyno.runner.Runner._try", tried)
    result = called("--modes", "best", "--rounds", "2", "--out", "here", "--json")
    assert result.return_value == 0
    data = json.loads(result.stdout)
    assert [cell["mode"] for cell in data["cells"]] == ["steady", "drift"]
    assert all(cell["trials"] == {"ok": 2} for cell in data["cells"])
    (search,) = data["search"]
    assert search["best"] == data["cells"][1]["key"]
    assert sorted(s for s in search["seconds"].values() if s) == [1.0, 2.0, 3.0]


def test_what_was_tried_is_told_and_counts_for_nothing_else(work: Path) -> None:
    result = called("--modes", "best", "--rounds", "1", "--out", "here", "--trial-timeout", "5s")
    run = read_run(work / "here")
    assert "best of null" in result.stdout
    assert "gave no time" in result.stdout  # modes that crash or hang
    assert {trial.round for trial in run.trials} == {1}
    assert len(list((work / "here" / "trials").iterdir())) > len(run.trials)


def test_candidates_differ_in_nothing_but_settings() -> None:
    request = Request(frameworks=("pytorch",), modes=("best",), networks=("conv_l5",))
    (choice,) = choices(request)
    found = [(cell.mode, cell.layout, cell.autotune) for cell in choice.candidates]
    assert found == [
        (mode, layout, "on") for mode in ("eager", "compile") for layout in ("nchw", "nhwc")
    ]
    assert choice.default in choice.candidates


def test_a_layout_that_was_asked_for_stands() -> None:
    request = Request(
        frameworks=("pytorch",), modes=("best",), networks=("conv_l5",), layout=("nhwc",)
    )
    (choice,) = choices(request)
    assert {cell.layout for cell in choice.candidates} == {"nhwc"}


def test_other_modes_beside_it() -> None:
    with pytest.raises(NetdynoError, match="leave steady out"):
        called("--modes", "best,steady")
