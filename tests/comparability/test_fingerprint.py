"""Fingerprints from run folders."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from netdyno.comparability import fingerprint_of, inconsistencies, verdict
from netdyno.errors import NetdynoError
from netdyno.plan.cell import Cell
from netdyno.plan.request import Request
from netdyno.store.run import read_run
from netdyno.store.run_folder import RunFolder
from tests.comparability.fingerprints import HOST
from tests.comparability.pairs import PYTORCH


def told(key: str, number: int, status: str = "ok", **fields: Any) -> list[Any]:
    return [
        {"event": "trial", "schema": 1, "cell": key, "round": number, "started": "now"},
        {**PYTORCH.trial, **fields},
        {"event": "outcome", "status": status, "reason": "", "seconds": 1.0},
    ]


@pytest.fixture
def cell(make_cell: Callable[..., Cell]) -> dict[str, Any]:
    return make_cell().to_json()


def test_a_cell_is_what_its_first_good_trial_was(
    write_run: Callable[..., Path], cell: dict[str, Any]
) -> None:
    key = cell["key"]
    folder = write_run(
        [cell],
        {
            "0001": told(key, 1, "failed", python="3.9"),
            "0002": told(key, 2, python="3.10"),
            "0003": told(key, 3, python="3.11"),
        },
        host=HOST,
        hyperparameters={"momentum": 0.9},
        phases={"forward": "x"},
    )
    run = read_run(folder)
    found = fingerprint_of(run, key)
    assert found.cell == cell
    assert found.trial["python"] == "3.10"
    assert found.host is run.data["host"]
    assert found.timed == {
        "schema": 1,
        "netdyno": "0.0",
        "hyperparameters": {"momentum": 0.9},
        "phases": {"forward": "x"},
        "verified": True,
    }
    differing = inconsistencies(run, key)
    assert [(d.what, d.a, d.b) for d in differing] == [("Python", "3.10", "3.11")]


def test_a_cell_without_trials_can_still_be_shown(
    write_run: Callable[..., Path], cell: dict[str, Any]
) -> None:
    run = read_run(write_run([cell], {}))
    found = fingerprint_of(run, cell["key"])
    assert found.cell == cell
    assert found.trial == {}
    assert inconsistencies(run, cell["key"]) == ()


def test_a_cell_that_is_not_there_is_named_with_the_nearest(
    write_run: Callable[..., Path], cell: dict[str, Any]
) -> None:
    run = read_run(write_run([cell], {}))
    with pytest.raises(NetdynoError, match=r"unknown cell of written 'null/stedy.*did you mean"):
        fingerprint_of(run, cell["key"].replace("steady", "stedy"))


def test_an_upgrade_during_a_run_is_found(
    write_run: Callable[..., Path], cell: dict[str, Any]
) -> None:
    key = cell["key"]
    newer = {**PYTORCH.trial["versions"], "onednn": "4.0"}
    run = read_run(
        write_run(
            [cell],
            {
                "0001": told(key, 1),
                "0002": told(key, 2),
                "0003": told(key, 3, versions=newer, python="3.12"),
                "0004": told(key, 4, versions=newer, threads={"count": 1}),
            },
        )
    )
    assert [(d.what, d.kind) for d in inconsistencies(run, key)] == [
        ("threads in force", "invalid"),
        ("oneDNN", "as-shipped"),
        ("Python", "like-for-like"),
    ]


def test_an_unverified_cell_is_told_from_a_verified_one(
    write_run: Callable[..., Path], cell: dict[str, Any], make_cell: Callable[..., Cell]
) -> None:
    other = make_cell(mode="drift").to_json()
    run = read_run(
        write_run(
            [cell, other],
            {"1": told(cell["key"], 1), "2": told(other["key"], 1)},
            verification={cell["key"]: {"passed": True}, other["key"]: {"passed": False}},
        )
    )
    (found,) = verdict(
        fingerprint_of(run, cell["key"]), fingerprint_of(run, other["key"])
    ).differences
    assert (found.what, found.a, found.b, found.kind) == ("verified", "yes", "no", "invalid")


def test_run_json_says_what_is_timed(tmp_path: Path, make_cell: Callable[..., Cell]) -> None:
    folder = RunFolder(tmp_path / "run")
    folder.begin(Request(), [make_cell()], HOST)
    data = json.loads((folder.path / "run.json").read_text("utf-8"))
    assert list(data["phases"]) == ["forward_backward", "forward", "train_step"]
    found = fingerprint_of(read_run(folder.path), make_cell().key)
    assert found.timed["phases"] == data["phases"]
    assert found.timed["verified"] is None
