"""What makes a series, and what is said to have changed between two runs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from netdyno.history import Difference, conditions, host_name, level, series_of
from netdyno.store.query import Measurement

START = datetime(2026, 1, 1, tzinfo=UTC)
HOST = {"cpu": {"model": "Abacus 9", "logical_cores": 4}, "gpus": []}


def run(day: int, seconds: float = 1.0, **fields: Any) -> Measurement:
    given: dict[str, Any] = {
        "cell": "a",
        "network_hash": "1",
        "netdyno": "0.1",
        "verified": True,
        "host": HOST,
        **fields,
    }
    return Measurement(
        run=Path(f"r{day}"), started=START + timedelta(days=day), seconds=(seconds,), **given
    )


def test_a_series_is_one_cell_network_and_host() -> None:
    other = {**HOST, "cpu": {"model": "Slide rule", "logical_cores": 1}}
    runs = [
        run(0),
        run(1, cell="b"),
        run(2, network_hash="2"),
        run(3, host=other),
        run(4),
    ]
    found = series_of(runs)
    assert [(s.cell, s.network_hash, s.host, [r.run.name for r in s.runs]) for s in found] == [
        ("a", "1", "Abacus 9, 4 cores", ["r0", "r4"]),
        ("a", "1", "Slide rule, 1 core", ["r3"]),
        ("a", "2", "Abacus 9, 4 cores", ["r2"]),
        ("b", "1", "Abacus 9, 4 cores", ["r1"]),
    ]


def test_hosts_that_are_made_of_the_same_differ_by_their_ids() -> None:
    first, second = {**HOST, "id": "f1"}, {**HOST, "id": "5e"}
    found = series_of([run(0), run(1, host=first), run(2, host=second), run(3, host=first)])
    assert sorted((s.host, [r.run.name for r in s.runs]) for s in found) == [
        ("Abacus 9, 4 cores (5e)", ["r2"]),
        ("Abacus 9, 4 cores (f1)", ["r1", "r3"]),
        ("Abacus 9, 4 cores (id unknown)", ["r0"]),
    ]


def test_runs_from_before_there_were_ids_belong_to_the_only_such_host() -> None:
    (series,) = series_of([run(0), run(1, host={**HOST, "id": "f1"})])
    assert series.host == "Abacus 9, 4 cores"
    assert len(series.runs) == 2


def test_host_names() -> None:
    gpus = [{"name": "NVIDIA H200", "driver": "1"}, {"name": "NVIDIA H200"}]
    assert host_name({**HOST, "gpus": gpus}) == "Abacus 9, 4 cores, NVIDIA H200, NVIDIA H200"
    assert host_name({"machine": "x86_64"}) == "x86_64"
    assert host_name({"cpu": 3, "gpus": "none"}) == "unknown processor"


def test_level_is_the_median_of_the_processes() -> None:
    assert level(Measurement(Path(), START, "a", "", (3.0, 1.0, 9.0), "", True)) == 3.0


def test_conditions_are_flat_and_versions_come_first() -> None:
    fingerprint = {
        "event": "fingerprint",
        "python": "3.12",
        "versions": {"pytorch": "2.12", "oneDNN": None},
        "threads": {"intra": 4},
        "notes": ["a", "b"],
        "environment": {"OMP_NUM_THREADS": "4"},
        "tf32": False,
    }
    host = {**HOST, "id": "f1", "memory_bytes": 8_400_000_000, "gpus": [{"driver": "1"}]}
    found = conditions(run(0, fingerprint=fingerprint, host=host, verified=False))
    assert list(found.items()) == [
        ("pytorch", "2.12"),
        ("oneDNN", "none"),
        ("netdyno", "0.1"),
        ("OMP_NUM_THREADS", "4"),
        ("python", "3.12"),
        ("threads intra", "4"),
        ("notes", "a; b"),
        ("tf32", "False"),
        ("cpu model", "Abacus 9"),
        ("cpu logical_cores", "4"),
        ("gpus 0 driver", "1"),
        ("memory", "8.4 GB"),
        ("verified", "no"),
    ]


def test_a_change_and_what_else_changed_between_the_runs_it_lies_between() -> None:
    runs = [
        run(
            day,
            (1.0 if day < 10 else 1.3) * (1 + 0.001 * (day % 3)),
            fingerprint={"versions": {"pytorch": "2.12"} if day < 10 else {"XLA": "7"}},
            netdyno="0.1" if day < 15 else "0.2",
        )
        for day in range(20)
    ]
    (series,) = series_of(runs)
    (change,) = series.changes
    assert [r.run.name for r in (change.before, change.first, change.after)] == ["r9", "r10", "r10"]
    assert change.differences == (
        Difference("XLA", "none", "7"),
        Difference("pytorch", "2.12", "none"),
    )
