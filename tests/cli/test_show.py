"""`netdyno show`: an earlier run again."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click import UsageError
from click.testing import CliRunner, Result

from netdyno.cli.show import command
from netdyno.errors import NetdynoError
from netdyno.plan.cell import Cell


@pytest.fixture(autouse=True)
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run(write_run: Callable[..., Path], make_cell: Callable[..., Cell]) -> Path:
    cell = make_cell()
    events: list[dict[str, Any]] = [
        {"event": "trial", "cell": cell.key, "round": 1},
        {"event": "outcome", "status": "failed", "reason": "no reason"},
    ]
    return write_run([cell.to_json()], {"0001": events})


def shown(*words: str) -> Result:
    result = CliRunner().invoke(command, list(words), standalone_mode=False)
    if result.exception:
        raise result.exception
    return result


def test_table(run: Path) -> None:
    result = shown(str(run))
    assert "tiny, batch 2" in result.stdout
    assert "no reason" in result.stdout
    assert "\x1b" not in result.stdout


def test_json(run: Path) -> None:
    (cell,) = json.loads(shown("--json", str(run)).stdout)["cells"]
    assert cell["trials"] == {"failed": 1}


def test_the_newest_by_default(run: Path, work: Path) -> None:
    for name, age in (("b", 50), ("a", 10), ("c", 90)):
        folder = work / "runs" / name
        folder.mkdir(parents=True)
        data = json.loads((run / "run.json").read_text())
        (folder / "run.json").write_text(json.dumps(data))
        os.utime(folder / "run.json", (1e9 - age, 1e9 - age))
    assert json.loads(shown("--json").stdout)["run"] == "a"


def test_no_run_yet() -> None:
    with pytest.raises(NetdynoError, match="there is no run in runs/: name a run folder"):
        shown()


def test_not_a_run(work: Path) -> None:
    with pytest.raises(NetdynoError, match="holds no run"):
        shown(str(work))


def test_a_folder_that_does_not_exist() -> None:
    with pytest.raises(NetdynoError, match="nowhere does not exist"):
        shown("nowhere")


def test_beside_what_was_published(run: Path) -> None:
    text = shown("--published", str(run)).stdout
    assert "forward+backward in ms on cpu" in text
    assert "Nothing was published" in text
    assert "\x1b" not in text


def test_beside_what_was_published_in_markdown(run: Path) -> None:
    assert shown("--published", "--markdown", str(run)).stdout.startswith("### forward+backward")


def test_json_of_what_was_published(
    write_run: Callable[..., Path], make_cell: Callable[..., Cell]
) -> None:
    cell = make_cell(network_spec="googlenet", batch_size=32).to_json()
    folder = str(write_run([cell], {}))
    plain = json.loads(shown("--json", folder).stdout)
    told = json.loads(shown("--json", "--published", folder).stdout)
    found = told.pop("published")
    assert told == plain
    libraries = [figure["library"] for figure in found]
    assert libraries == ["TensorFlow", "Caffe", "Torch7", "MXNet"]
    assert found[0]["total_seconds"] == 0.94
    assert found[0]["forward_seconds"] is None


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--markdown"], "--markdown needs --published"),
        (["--published", "--markdown", "--json"], "--markdown and --json exclude each other"),
    ],
)
def test_options_that_do_not_go_together(run: Path, words: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message) as refused:
        shown(*words, str(run))
    assert refused.value.exit_code == 2


def test_a_run_of_memory_has_no_times_to_show(
    write_run: Callable[..., Path], make_cell: Callable[..., Cell]
) -> None:
    cell = make_cell()
    events: list[dict[str, Any]] = [
        {"event": "trial", "cell": cell.key, "round": 1, "measures": "memory"},
        {"event": "outcome", "status": "ok", "reason": ""},
    ]
    folder = write_run([cell.to_json()], {"0001": events})
    with pytest.raises(NetdynoError, match="measured memory only: --published shows times"):
        shown("--published", str(folder))
