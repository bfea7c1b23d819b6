"""Writing a run: valid at every moment, nothing lost, nothing overwritten."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from netdyno.errors import NetdynoError
from netdyno.outcome import Outcome
from netdyno.plan.cell import Cell
from netdyno.plan.request import Request
from netdyno.store.run import read_run
from netdyno.store.run_folder import SCHEMA, RunFolder


@pytest.fixture
def folder(tmp_path: Path, make_cell: Callable[..., Cell]) -> RunFolder:
    begun = RunFolder(tmp_path / "deep" / "run")
    begun.begin(Request(), [make_cell(), make_cell(mode="hang")], {"machine": "abacus"})
    return begun


def run_json(folder: RunFolder) -> dict[str, Any]:
    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    data = json.loads((folder.path / "run.json").read_text("utf-8"), parse_constant=refuse)
    assert isinstance(data, dict)
    return data


def test_run_json_holds_what_was_asked(folder: RunFolder, make_cell: Callable[..., Cell]) -> None:
    data = run_json(folder)
    assert data["schema"] == SCHEMA == 1
    assert data["status"] == "running"
    assert data["ended"] is None
    assert data["request"] == json.loads(json.dumps(Request().to_json()))
    assert data["hyperparameters"] == {
        "learning_rate": 0.05,
        "momentum": 0.9,
        "weight_decay": 1e-4,
    }
    assert data["host"] == {"machine": "abacus"}
    assert [cell["mode"] for cell in data["cells"]] == ["steady", "hang"]
    assert data["networks"]["tiny"]["hash"] == make_cell().network.hash
    assert data["cells"][0]["network_hash"] == make_cell().network.hash


def test_only_what_is_documented_is_in_the_folder(folder: RunFolder) -> None:
    folder.end("complete")
    assert sorted(path.name for path in folder.path.iterdir()) == ["run.json", "trials"]


@pytest.mark.parametrize("status", ["complete", "budget", "interrupted"])
def test_its_end(folder: RunFolder, status: str) -> None:
    folder.end(status)
    data = run_json(folder)
    assert data["status"] == status
    assert data["ended"] >= data["started"]


def test_run_json_is_valid_json_at_every_moment(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is written goes beside it, and takes its place whole."""
    seen = []
    replace, write_text = Path.replace, Path.write_text

    def watched_write(path: Path, *args: Any, **options: Any) -> int:
        assert path.name != "run.json"
        count = write_text(path, *args, **options)
        seen.append(run_json(folder)["status"])
        return count

    def watched_replace(path: Path, target: Path) -> Path:
        json.loads(path.read_text("utf-8"))
        moved = replace(path, target)
        seen.append(run_json(folder)["status"])
        return moved

    monkeypatch.setattr(Path, "write_text", watched_write)
    monkeypatch.setattr(Path, "replace", watched_replace)
    folder.end("complete")
    assert seen == ["running", "complete"]


def test_a_failure_while_writing_leaves_the_old_one(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_text = Path.write_text

    def half(path: Path, text: str, *args: Any, **options: Any) -> int:
        write_text(path, text[: len(text) // 2], *args, **options)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", half)
    with pytest.raises(OSError, match="No space left"):
        folder.end("complete")
    assert run_json(folder)["status"] == "running"


def test_not_a_number_never_reaches_the_file(
    tmp_path: Path, make_cell: Callable[..., Cell]
) -> None:
    begun = RunFolder(tmp_path)
    with pytest.raises(ValueError, match="JSON"):
        begun.begin(Request(), [make_cell()], {"memory_bytes": float("nan")})
    assert not (tmp_path / "run.json").exists()


def test_another_run_is_never_overwritten(folder: RunFolder) -> None:
    before = (folder.path / "run.json").read_bytes()
    with pytest.raises(NetdynoError, match=r"already holds a run: name another folder with --out"):
        RunFolder(folder.path)
    assert (folder.path / "run.json").read_bytes() == before


def test_an_empty_folder_will_do(tmp_path: Path) -> None:
    (tmp_path / "made").mkdir()
    assert RunFolder(tmp_path / "made").path.is_dir()


def test_a_folder_under_a_file_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(NetdynoError, match=r"cannot write to .*file.*--out"):
        RunFolder(tmp_path / "file" / "run")


def test_a_file_in_its_place(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("kept")
    with pytest.raises(NetdynoError, match=r"cannot write to .*file.*--out"):
        RunFolder(tmp_path / "file")
    assert (tmp_path / "file").read_text() == "kept"


def test_a_name_that_no_file_system_takes(tmp_path: Path) -> None:
    with pytest.raises(NetdynoError, match=r"cannot write to .*--out"):
        RunFolder(tmp_path / ("long" * 100))


def test_a_folder_that_may_not_be_looked_into(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, *_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "stat", refuse)
    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(NetdynoError, match=r"cannot write to .*Permission denied.*--out"):
        RunFolder(tmp_path / "theirs" / "run")


def test_trials_are_numbered_in_the_order_they_ran(
    folder: RunFolder, make_cell: Callable[..., Cell]
) -> None:
    odd = make_cell(network_spec="googlenet:lrn=on:size=224", mode="../..\\steady")
    paths = [folder.new_trial(cell, n) for cell in (make_cell(), odd) for n in (1, 2)]
    assert [path.name[:8] for path in paths] == ["0001-r1-", "0002-r2-", "0003-r1-", "0004-r2-"]
    assert {path.parent for path in paths} == {folder.path / "trials"}
    head = json.loads(paths[2].read_text())
    assert head["event"] == "trial"
    assert head["schema"] == SCHEMA
    assert (head["cell"], head["round"]) == (odd.key, 1)


def test_outcome_stands_on_its_own_line_after_one_that_was_cut(
    folder: RunFolder, make_cell: Callable[..., Cell]
) -> None:
    path = folder.new_trial(make_cell(), 1)
    with path.open("a") as file:
        file.write('{"event":"block","phase":"forward","sec')
    folder.end_trial(path, Outcome("failed", "killed by signal 9 (SIGKILL)", 1.23456))
    assert json.loads(path.read_text().splitlines()[-1]) == {
        "event": "outcome",
        "status": "failed",
        "reason": "killed by signal 9 (SIGKILL)",
        "seconds": 1.235,
    }
    (trial,) = read_run(folder.path).trials
    assert (trial.status, trial.reason) == ("failed", "killed by signal 9 (SIGKILL)")


def test_a_reason_of_several_lines_stays_one_line(
    folder: RunFolder, make_cell: Callable[..., Cell]
) -> None:
    path = folder.new_trial(make_cell(), 1)
    reason = "first\nsecond\u2028third\x85fourth “quoted”"
    folder.end_trial(path, Outcome("failed", reason))
    (trial,) = read_run(folder.path).trials
    assert trial.reason == "first second third fourth “quoted”"
