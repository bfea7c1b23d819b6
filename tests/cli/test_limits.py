"""`netdyno limits`, and the limits of a run, on the null framework."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from netdyno.cli import before
from netdyno.cli.limits import command
from netdyno.cli.run import command as run_command
from netdyno.environments import Environment
from netdyno.plan.sampling import Sampling
from netdyno.store.run import read_run

NETWORK = "conv_l5:size=4"
AXES = ["--frameworks", "null", "--networks", NETWORK, "--threads", "1", "--rounds", "1"]


@pytest.fixture(autouse=True)
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NETDYNO_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("netdyno.plan.estimate._flop_per_second", lambda: 1e11)
    monkeypatch.setattr("netdyno.plan.job.SAMPLING", Sampling(2, 3, 0.05, 0.0005, 2))
    return tmp_path


def called(*words: str, what: Any = command) -> Result:
    result = CliRunner().invoke(what, list(words), standalone_mode=False)
    if result.exception:
        raise result.exception
    return result


def on_null(monkeypatch: pytest.MonkeyPatch, python: str = sys.executable) -> list[str]:
    """Limits of a run, where null counts as a framework that computes; the devices asked for."""
    asked: list[str] = []

    def targets(plan: Sequence[Any]) -> list[Any]:
        return [("cpu", 1, tuple({cell.precision for cell in plan}))]

    def candidates(device: str, settings: Any) -> list[Environment]:
        asked.append(device)
        return [Environment("null", Path(python), "controller", "cpu", "ready")]

    monkeypatch.setattr(before, "targets", targets)
    monkeypatch.setattr(before, "candidates", candidates)
    return asked


def test_json() -> None:
    words = ["--framework", "null", "--networks", NETWORK, "--batch-size", "2", "--json"]
    result = called(*words)
    assert result.return_value == 0
    data = json.loads(result.stdout)
    (device,) = data["devices"]
    figures = {(f["name"], f["precision"]): f for f in device["figures"]}
    assert figures["product", "tf32"]["problem"] == "TF32 is a precision of GPUs"
    rate, bandwidth = figures["product", "fp32"]["value"], figures["copy", None]["value"]
    assert figures["product", "fp32"]["samples"]
    (network,) = data["networks"]
    (layer,) = [layer for layer in network["layers"] if layer["kind"] == "Conv"]
    forward = layer["forward"]
    expected = max(forward["flop"] / rate, forward["bytes"] / bandwidth)
    assert forward["limit_seconds"] == pytest.approx(expected)
    assert layer["input_gradient"] is None
    assert network["limit_seconds"]["forward"] == pytest.approx(
        sum(layer["forward"]["limit_seconds"] for layer in network["layers"])
    )
    assert "measuring the limits of cpu" in result.stderr


def test_tables() -> None:
    result = called("--framework", "null", "--networks", f"{NETWORK},alexnet_owt")
    assert "with null (for tests) 1" in result.stdout
    assert "it counts in fp32 only" in result.stdout
    assert "conv_l5, batch 32" in result.stdout
    assert "alexnet_owt, batch 32" in result.stdout
    assert result.stdout.count("At least, in ms: ") == 2


def test_no_table_of_a_precision_without_a_ceiling() -> None:
    words = ["--framework", "null", "--precision", "fp32,bf16", "--networks", NETWORK, "--json"]
    networks = json.loads(called(*words).stdout)["networks"]
    assert [network["precision"] for network in networks] == ["fp32"]


def test_exit_code_1_without_ceilings() -> None:
    assert called("--framework", "null", "--precision", "bf16").return_value == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--framework", "mxnet"], "mxnet measures no limits: name one of jax, numpy, pytorch"),
        (["--framework", "torch7"], "torch7 measures no limits"),
        (["--framework", "pytorsch"], "unknown framework 'pytorsch'"),
        (["--framework", "pytorch"], "the environment of pytorch has not been made"),
        (["--precision", "fp23"], "unknown precision 'fp23'"),
        (["--device", "cdua"], "unknown device 'cdua'"),
        (["--networks", "vgg_z"], "vgg_z"),
        (["--batch-size", "0"], "0 is not in the range"),
    ],
)
def test_bad_input(words: list[str], message: str) -> None:
    with pytest.raises(Exception, match=message):
        called(*words)


def test_a_run_keeps_the_limits_and_says_how_near_each_cell_comes(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_null(monkeypatch)
    result = called(*AXES, "--json", "--out", "here", what=run_command)
    assert result.return_value == 0
    data = json.loads(result.stdout)
    (cell,) = data["cells"]
    assert set(cell["limit_seconds"]) == {"forward", "forward_backward", "train_step"}
    both = cell["forward_backward"]["seconds"]
    assert cell["of_limit"] == pytest.approx(cell["limit_seconds"]["forward_backward"] / both)
    assert cell["flop_per_second"] > 0
    (limits,) = data["limits"]
    assert limits == read_run(work / "here").data["limits"][0]
    assert "samples" not in limits["figures"][0]
    # The raw samples, in a trial that is neither of time nor of memory.
    (file,) = (work / "here" / "trials").glob("*limits*")
    assert '"samples":[{' in file.read_text()
    run = read_run(work / "here")
    assert (len(run.trials), len(run.memory_trials)) == (1, 0)


def test_nothing_is_measured_for_the_null_framework(work: Path) -> None:
    result = called(*AXES, "--json", "--out", "here", what=run_command)
    assert json.loads(result.stdout)["cells"][0]["of_limit"] is None
    assert "limits" not in read_run(work / "here").data
    assert "limits" not in result.stderr


def test_no_limits(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = on_null(monkeypatch)
    called(*AXES, "--no-limits", "--out", "here", what=run_command)
    assert asked == []
    assert "limits" not in read_run(work / "here").data


def test_a_failure_costs_only_its_columns(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    on_null(monkeypatch, "/nowhere/python")
    result = called(*AXES, "--out", "here", what=run_command)
    assert result.return_value == 0
    assert "The limits of cpu, fp32 are not known: cannot start" in result.stdout
    assert "GFLOP" not in result.stdout
    assert read_run(work / "here").data["limits"][0]["status"] == "failed"


def test_a_run_that_is_gone_on_with_has_its_limits(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = on_null(monkeypatch)
    called(*AXES, "--out", "here", what=run_command)
    before = read_run(work / "here").data["limits"]
    called("--resume", "here", what=run_command)
    assert asked == ["cpu"]
    assert read_run(work / "here").data["limits"] == before
