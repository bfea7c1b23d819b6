"""Reading a run, whatever state it was left in."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from netdyno.errors import NetdynoError
from netdyno.plan.cell import Cell
from netdyno.store.run import Block, read_run
from netdyno.store.run_folder import SCHEMA

WriteRun = Callable[..., Path]

BLOCK: dict[str, Any] = {
    "event": "block",
    "phase": "forward",
    "index": 0,
    "kind": "sample",
    "iterations": 4,
    "seconds": 2.0,
    "user_seconds": 1.5,
    "system_seconds": 0.5,
    "minor_faults": 8,
    "major_faults": 0,
}
OK = {"event": "outcome", "status": "ok", "reason": "", "seconds": 3.0}


def head(cell: str = "a", number: int = 1) -> dict[str, Any]:
    return {"event": "trial", "schema": 1, "cell": cell, "round": number, "started": "now"}


@pytest.fixture
def cells(make_cell: Callable[..., Cell]) -> list[dict[str, Any]]:
    return [make_cell(mode="steady").to_json(), make_cell(mode="drift").to_json()]


def test_a_whole_run(write_run: WriteRun, cells: list[dict[str, Any]]) -> None:
    a, b = (cell["key"] for cell in cells)
    warmup = {**BLOCK, "kind": "warmup", "iterations": 1}
    told = {"event": "fingerprint", "versions": {"null": "1"}}
    run = read_run(
        write_run(
            cells,
            {
                "0001": [head(a), {"event": "started"}, warmup, BLOCK, told, OK],
                "0002": [head(b, 2), {**BLOCK, "phase": "train_step"}, OK],
            },
        )
    )
    assert list(run.cells) == [a, b]
    (first,), (second,) = run.trials_of(a), run.trials_of(b)
    assert (first.status, first.reason, first.round, second.round) == ("ok", "", 1, 2)
    assert first.fingerprint["versions"] == {"null": "1"}
    assert first.of("forward") == [Block("forward", "sample", 4, 2.0, 1.5, 0.5, 8, 0)]
    assert first.of("forward")[0].seconds_per_iteration == 0.5
    assert len(first.of("forward", "warmup")) == 1
    assert first.of("train_step") == []
    assert run.trials_of("nothing") == []


def test_run_json_itself_may_be_named(write_run: WriteRun, cells: list[dict[str, Any]]) -> None:
    folder = write_run(cells, {"0001": [head(), OK]})
    assert read_run(folder / "run.json") == read_run(folder)


def test_no_outcome_means_interrupted(write_run: WriteRun, cells: list[dict[str, Any]]) -> None:
    (trial,) = read_run(write_run(cells, {"0001": [head(), BLOCK]})).trials
    assert trial.status == "interrupted"
    assert trial.reason
    assert len(trial.blocks) == 1


def test_the_cut_last_line_of_a_killed_worker(
    write_run: WriteRun, cells: list[dict[str, Any]]
) -> None:
    folder = write_run(cells, {"0001": [head(), BLOCK]})
    with (folder / "trials" / "0001.jsonl").open("a") as file:
        file.write(json.dumps(BLOCK)[:40])
    (trial,) = read_run(folder).trials
    assert len(trial.blocks) == 1


def test_lines_that_are_none_of_ours_are_passed_over(
    write_run: WriteRun, cells: list[dict[str, Any]]
) -> None:
    folder = write_run(
        cells, {"0001": [head(), "", "garbage", "[1, 2]", "3", "null", '"text"', '{"a": 1}', BLOCK]}
    )
    with (folder / "trials" / "0001.jsonl").open("ab") as file:
        file.write(b"\x00\xff\xfe\n" + json.dumps(OK).encode() + b"\n")
    (trial,) = read_run(folder).trials
    assert trial.status == "ok"
    assert len(trial.blocks) == 1


@pytest.mark.parametrize("lacking", ["iterations", "phase"])
def test_a_block_that_lacks_a_field_is_passed_over(
    write_run: WriteRun, cells: list[dict[str, Any]], lacking: str
) -> None:
    broken = {key: value for key, value in BLOCK.items() if key != lacking}
    (trial,) = read_run(write_run(cells, {"0001": [head(), broken, BLOCK, OK]})).trials
    assert len(trial.blocks) == 1


def test_fields_and_events_of_a_later_minor_version_are_passed_over(
    write_run: WriteRun, cells: list[dict[str, Any]]
) -> None:
    more = {**BLOCK, "joules": 3.0}
    (trial,) = read_run(
        write_run(cells, {"0001": [head(), {"event": "power", "watts": 9}, more, OK]})
    ).trials
    assert len(trial.blocks) == 1


def test_a_trial_file_that_was_not_begun_yet_does_not_hide_the_others(
    write_run: WriteRun, cells: list[dict[str, Any]]
) -> None:
    """netdyno was killed between making the file and writing its first line."""
    run = read_run(write_run(cells, {"0001": [head(), BLOCK, OK], "0002": []}))
    assert [trial.status for trial in run.trials] == ["ok"]


def test_a_trial_file_that_is_something_else(
    write_run: WriteRun, cells: list[dict[str, Any]]
) -> None:
    folder = write_run(cells, {"0001": [BLOCK, OK]})
    with pytest.raises(NetdynoError, match=r"0001\.jsonl does not begin with the trial"):
        read_run(folder)


def test_trials_come_in_the_order_they_ran(
    write_run: WriteRun, cells: list[dict[str, Any]]
) -> None:
    names = ["0010-r2", "0002-r1", "0001-r1"]
    trials = {name: [head(number=int(name[:4])), OK] for name in names}
    assert [trial.round for trial in read_run(write_run(cells, trials)).trials] == [1, 2, 10]


def test_a_newer_schema_is_refused(write_run: WriteRun, cells: list[dict[str, Any]]) -> None:
    folder = write_run(cells, {}, schema=SCHEMA + 1)
    with pytest.raises(NetdynoError, match=rf"has schema {SCHEMA + 1}, .* up to 1: update"):
        read_run(folder)


@pytest.mark.parametrize("schema", ["1", None, [1]])
def test_a_schema_that_is_no_number(
    write_run: WriteRun, cells: list[dict[str, Any]], schema: object
) -> None:
    folder = write_run(cells, {}, schema=schema)
    with pytest.raises(NetdynoError, match=r"run\.json"):
        read_run(folder)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is not valid JSON"),
        ('{"schema": 1, ', "is not valid JSON"),
        ("[]", "is not the run.json of a netdyno run"),
        ("3", "is not the run.json of a netdyno run"),
        ("{}", "is not the run.json of a netdyno run"),
        ('{"schema": 1, "cells": []}', "is not the run.json of a netdyno run"),
    ],
)
def test_what_is_no_run(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(NetdynoError, match=rf"run\.json {words}"):
        read_run(tmp_path)


def test_a_folder_without_a_run(tmp_path: Path) -> None:
    with pytest.raises(NetdynoError, match="holds no run"):
        read_run(tmp_path)


def test_a_folder_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(NetdynoError, match="nowhere"):
        read_run(tmp_path / "nowhere")


def test_a_file_that_is_not_text(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(NetdynoError, match="cannot read"):
        read_run(tmp_path)
