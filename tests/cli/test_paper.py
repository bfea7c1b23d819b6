"""`netdyno paper figure-7`: the table, JSON, and what is missing."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from netdyno.cli import paper
from netdyno.environments import Environment
from netdyno.memory import MXNET_1_9, MXNET_2015, STRATEGIES
from netdyno.memory.figure7 import networks
from netdyno.published.figure7 import PHASES, Reason, planned


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No environment has been made."""
    monkeypatch.setenv("NETDYNO_HOME", str(tmp_path))


@pytest.fixture
def with_mxnet(monkeypatch: pytest.MonkeyPatch) -> Any:
    """``with_mxnet(reasons)``: an MXNet that plans 2 GiB for everything but ``naive``'s 5."""

    def put(*reasons: Reason) -> None:
        here = Environment("mxnet", Path(sys.executable), "existing", "cpu", "ready")
        monkeypatch.setattr(paper.environments, "find", lambda spec, settings: here)
        values = {
            (network, phase, strategy): 5.0 if strategy == "naive" else 2.0
            for network in networks()
            for phase in PHASES
            for strategy in STRATEGIES
        }
        monkeypatch.setattr(paper, "mxnet_plans", lambda *given: (values, list(reasons)))

    return put


def called(*words: str) -> Result:
    result = CliRunner().invoke(paper.command, ["figure-7", *words], standalone_mode=False)
    if result.exception:
        raise result.exception
    return result


def cells(text: str) -> list[list[str]]:
    """The rows of the table; a missing first cell is left out."""
    return [line.split() for line in text.splitlines() if line.startswith(" ")]


def test_without_mxnet_the_rest_is_there() -> None:
    result = called()
    assert result.return_value == 0
    rows = cells(result.stdout)
    assert ["alexnet", "forward", "naive", "0.371", "0.371", "0.428", "-"] in rows
    assert ["naive", "/", "both", "1.68x", "1.68x", "2.62x", "-"] in rows
    assert "MXNet: the environment of mxnet has not been made; run `netdyno setup mxnet`" in (
        result.stdout
    )
    assert "planner 2015 and paper differ by at most 0.001 GiB" in result.stdout
    assert "\x1b" not in result.stdout


def test_with_mxnet(with_mxnet: Any) -> None:
    with_mxnet()
    result = called()
    assert result.return_value == 0
    assert ["vgg_a", "forward", "naive", "3.919", "3.920", "4.285", "5.000"] in cells(result.stdout)
    assert result.stdout.count("2.50x") == len(networks()) * len(PHASES)
    assert "not been made" not in result.stdout


def test_each_reason_is_a_line_and_a_failure_an_exit_code(with_mxnet: Any) -> None:
    with_mxnet(Reason("mxnet", "naive", "no compiler"))
    result = called()
    assert "MXNet, naive: no compiler" in result.stdout.splitlines()
    assert result.return_value == 0
    with_mxnet(Reason("mxnet", "vgg_a, both", "killed by signal 11", failed=True))
    result = called()
    assert "MXNet, vgg_a, both: killed by signal 11" in result.stdout.splitlines()
    assert result.return_value == 1


def test_another_batch_size_has_no_published_values() -> None:
    result = called("--batch-size", "128")
    key = ("vgg_a", "forward", "naive")
    both = [f"{planned(128, rules)[key]:.3f}" for rules in (MXNET_2015, MXNET_1_9)]
    assert [*key, "-", *both, "-"] in cells(result.stdout)
    assert "paper: the paper has batch size 64 only" in result.stdout


def test_json(with_mxnet: Any) -> None:
    with_mxnet(Reason("mxnet", "naive", "no compiler"))
    data = json.loads(called("--json").stdout)
    assert (data["schema"], data["batch_size"]) == (1, 64)
    assert len(data["internal_gib"]) == 24
    (row,) = [
        row
        for row in data["internal_gib"]
        if (row["network"], row["phase"], row["strategy"]) == ("alexnet", "forward", "both")
    ]
    assert (row["published"], row["mxnet"]) == (0.114, 2.0)
    assert {ratio["mxnet"] for ratio in data["naive_over_both"]} == {2.5}
    assert data["reasons"] == [
        {"source": "mxnet", "where": "naive", "reason": "no compiler", "failed": False}
    ]
    assert [cause["layer"] for cause in data["causes"]][:2] == ["Pool max", "LRN"]


def test_json_without_mxnet_has_null() -> None:
    data = json.loads(called("--json").stdout)
    assert {row["mxnet"] for row in data["internal_gib"]} == {None}
    assert data["largest_difference_gib"]["planned_1_9_mxnet"] is None
