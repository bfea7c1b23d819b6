"""`netdyno calibrate`, on runs made by hand and, once, on the null framework."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
from click.testing import CliRunner, Result
from tests.many_runs import write_measured_run

from netdyno.cli.calibrate import command
from netdyno.errors import NetdynoError
from netdyno.plan import estimate
from netdyno.plan import job as plan_job
from netdyno.plan.cell import Cell
from netdyno.plan.sampling import Sampling
from netdyno.store.run import read_run


@pytest.fixture
def many_rounds(tmp_path: Path, make_cell: Callable[..., Cell]) -> Path:
    times = np.exp(np.random.default_rng(1).normal(0, 0.02, 80)).tolist()
    return write_measured_run(tmp_path / "run", "2026-03-01T00:00:00+00:00", [(make_cell(), times)])


def call(*words: object) -> Result:
    return CliRunner().invoke(command, [str(word) for word in words], standalone_mode=False)


def test_of_an_earlier_run(many_rounds: Path) -> None:
    result = call("--run", many_rounds, "--json")
    assert result.return_value == 0
    (cell,) = json.loads(result.stdout)["cells"]
    assert cell["trials"] == 80
    lines = {line["rounds"]: line for line in cell["calibrations"]}
    assert list(lines) == [3, 6, 10, 20, 30]
    assert all(line["false_alarms"] <= 0.05 for line in lines.values())
    # Two cells that differ by 2 % each: a ratio by 2.8 %, of which 30 rounds know the median well.
    assert lines[30]["smallest"] < lines[6]["smallest"]
    assert 0.01 < lines[30]["smallest"] < 0.05


def test_the_answer_in_words(many_rounds: Path) -> None:
    text = call("--run", many_rounds).stdout
    assert "can be trusted to be found with 30 rounds" in text
    assert "two cells" in text


def test_too_few_trials(tmp_path: Path, make_cell: Callable[..., Cell]) -> None:
    run = write_measured_run(
        tmp_path / "run", "2026-03-01T00:00:00+00:00", [(make_cell(), [1.0, 1.1, 1.0])]
    )
    result = call("--run", run)
    assert result.return_value == 1
    assert "3 undisturbed trials are too few: give it a longer --budget" in result.stdout


def test_measures_one_cell_until_the_budget_is_spent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quick: Sampling
) -> None:
    monkeypatch.setattr(plan_job, "SAMPLING", quick)
    monkeypatch.setattr(estimate, "_flop_per_second", lambda: 1e11)
    out = tmp_path / "out"
    axes = ["--frameworks", "null", "--networks", "conv_l5:size=4", "--threads", "1"]
    result = call(*axes, "--budget", "5s", "--out", out, "--json")
    assert result.exception is None
    run = read_run(out)
    assert run.data["status"] == "budget"
    assert len(run.trials) > 1
    assert {block.phase for trial in run.trials for block in trial.blocks} == {"forward_backward"}
    assert json.loads(result.stdout)["run"] == "out"


@pytest.mark.parametrize("words", [("--budget", "5s"), ("--networks", "vgg_a"), ("--unverified",)])
def test_an_earlier_run_takes_no_options_of_measuring(
    many_rounds: Path, words: tuple[str, ...]
) -> None:
    result = call("--run", many_rounds, *words)
    assert isinstance(result.exception, click.UsageError)
    assert "--run measures nothing" in str(result.exception)


def test_a_run_that_is_not_there(tmp_path: Path) -> None:
    result = call("--run", tmp_path / "nowhere")
    assert isinstance(result.exception, NetdynoError)
    assert "nowhere does not exist" in str(result.exception)


def test_options_default_to_one_quick_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def measure(request: Any, plan: Any, *args: Any, **options: Any) -> None:
        asked.append((request, plan))
        raise NetdynoError("enough")

    monkeypatch.setattr("netdyno.cli.calibrate.measure", measure)
    call()
    ((request, plan),) = asked
    assert [cell.framework for cell in plan] == ["pytorch"]
    assert request.budget_seconds == 600
    assert request.phases == ("forward_backward",)
