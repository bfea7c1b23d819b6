"""`netdyno memory`, on the null framework."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import memray
import pytest
from click.testing import CliRunner, Result

from netdyno.cli import measure
from netdyno.cli.memory import command
from netdyno.cli.run import command as run_command
from netdyno.cli.show import command as show_command
from netdyno.errors import NetdynoError
from netdyno.store.run import read_run

NETWORK = "conv_l5:size=4"
AXES = ["--frameworks", "null", "--networks", NETWORK, "--batch-size", "2", "--threads", "1"]


@pytest.fixture(autouse=True)
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NETDYNO_HOME", str(tmp_path / "home"))
    folder = Path(memray.__file__).parent.parent
    monkeypatch.setattr(measure, "find_or_install", lambda environment, settings: folder)
    monkeypatch.setattr("netdyno.plan.estimate._flop_per_second", lambda: 1e11)
    return tmp_path


def called(*words: str, what: Any = command) -> Result:
    result = CliRunner().invoke(what, list(words), standalone_mode=False)
    if result.exception:
        raise result.exception
    return result


def test_json_on_stdout_progress_on_stderr(work: Path) -> None:
    result = called(*AXES, "--json", "--out", "here")
    assert result.return_value == 0
    cells = json.loads(result.stdout)["cells"]
    assert [cell["phase"] for cell in cells] == ["forward", "forward_backward", "train_step"]
    assert cells[0]["memory"]["reported_bytes"] == 2 * 2**20
    assert cells[0]["internal_bytes"] == pytest.approx(2 * 2**20, rel=0.02)
    assert "[1/1] memory: null steady" in result.stderr
    run = read_run(work / "here")
    assert run.data["status"] == "complete"
    assert run.trials == ()


def test_show_prints_it_again(work: Path) -> None:
    first = called(*AXES, "--out", "here").stdout
    again = called("here", what=show_command)
    assert again.return_value == 0
    assert again.stdout == first
    assert f"{NETWORK}, batch 2" in first
    assert json.loads(called("here", "--json", what=show_command).stdout)["cells"]


@pytest.mark.parametrize(("mode", "status"), [("crash", "failed"), ("oom", "out_of_memory")])
def test_a_trial_that_fails(mode: str, status: str) -> None:
    result = called(*AXES, "--modes", mode, "--json")
    assert result.return_value == 1
    cells = json.loads(result.stdout)["cells"]
    assert {cell["status"] for cell in cells} == {status}
    # What came before the failure is kept.
    assert cells[0]["internal_bytes"]
    assert cells[1]["memory"] is None


def test_without_an_instrument(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def fail(environment: Any, settings: Any) -> Path:
        calls.append(environment)
        raise NetdynoError("there is no network")

    monkeypatch.setattr(measure, "find_or_install", fail)
    result = called("--frameworks", "null", "--networks", NETWORK, "--batch-size", "1,2")
    assert result.return_value == 0
    assert "there is no network" in result.stdout
    assert len(calls) == 1


def test_beside_times(work: Path) -> None:
    result = called(*AXES, "--memory", "--rounds", "1", "--out", "both", what=run_command)
    assert result.return_value == 0
    assert "internal" in result.stdout
    run = read_run(work / "both")
    assert len(run.trials) == len(run.memory_trials) == 1
    assert not run.memory_trials[0].blocks
    assert not run.trials[0].memory
    without = called(*AXES, "--rounds", "1", what=run_command)
    assert "internal" not in without.stdout


def test_max_batch(work: Path) -> None:
    words = [*AXES, "--max-batch", "--memory-limit", "400MB", "--phase", "forward"]
    result = called(*words, "--json", "--out", "search")
    assert result.return_value == 0
    (found,) = json.loads(result.stdout)["searches"]
    size = found["largest_batch_size"]
    assert found["exact"]
    assert found["tried"][str(size)] == "ok"
    assert found["tried"][str(size + 1)] == "out_of_memory"
    # A MiB an image, and what Python and NumPy take.
    assert 100 < size < 400
    assert "fits" in result.stderr
    assert str(size) in called("search", what=show_command).stdout


def test_max_batch_of_what_cannot_run() -> None:
    result = called(*AXES, "--modes", "crash", "--max-batch", "--phase", "forward_backward")
    assert result.return_value == 1
    assert "none" in result.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--memory-limit", "8GB"], "--memory-limit belongs to --max-batch"),
        (["--phase", "forward"], "--phase belongs to --max-batch"),
        (["--max-batch", "--memory-limit", "8"], "is no size of memory: write 8GB"),
        (["--max-batch", "--memory-limit", "0GB"], "is no size of memory"),
        (["--networks", "vgg_z"], "vgg_z"),
        (["--batch-size", "0"], "--batch-size 0"),
    ],
)
def test_bad_input(words: list[str], message: str) -> None:
    with pytest.raises(Exception, match=message):
        called(*AXES, *words)
