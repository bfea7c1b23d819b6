"""Many run folders in one query, whatever state some of them are in."""

from __future__ import annotations

import json
import os
import shutil
import statistics
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from netdyno.errors import NetdynoError
from netdyno.plan.cell import Cell
from netdyno.store.folders import find_runs
from netdyno.store.query import Found, Measurement, measurements
from netdyno.store.run import read_run
from tests.many_runs import HOST, block, write_measured_run

MakeCell = Callable[..., Cell]


@pytest.fixture
def a(make_cell: MakeCell) -> Cell:
    return make_cell(mode="steady")


@pytest.fixture
def b(make_cell: MakeCell) -> Cell:
    return make_cell(mode="drift")


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    return tmp_path / "runs"


def read(*folders: Path, phase: str = "forward_backward") -> Found:
    return measurements(find_runs(folders), phase)


def only(found: Found) -> Measurement:
    (measurement,) = found.measurements
    return measurement


def one_run(runs: Path, cell: Cell, **options: Any) -> Path:
    return write_measured_run(
        runs / "one", "2026-03-01T00:00:00+00:00", [(cell, [0.2, 0.3])], **options
    )


def trial_file(run: Path) -> Path:
    return sorted((run / "trials").iterdir())[0]


def test_every_run_cell_and_round(runs: Path, a: Cell, b: Cell) -> None:
    times = [(a, [0.2, 0.21, 0.19]), (b, [0.5, 0.4])]
    write_measured_run(runs / "later", "2026-03-02T10:00:00+00:00", times, versions={"null": "2"})
    write_measured_run(runs / "sooner", "2026-03-01T10:00:00+00:00", [(a, [0.3])], verified=False)
    found = read(runs)
    assert found.runs == 2
    assert not found.skipped
    assert [(m.run.name, m.cell, m.seconds) for m in found.measurements] == [
        ("sooner", a.key, (pytest.approx(0.3),)),
        ("later", b.key, (pytest.approx(0.5), pytest.approx(0.4))),
        ("later", a.key, tuple(pytest.approx(seconds) for seconds in times[0][1])),
    ]
    sooner, _, later = found.measurements
    assert later.started == datetime(2026, 3, 2, 10, tzinfo=UTC)
    assert (later.network_hash, later.host) == (a.network.hash, HOST)
    assert later.fingerprint["versions"] == {"null": "2"}
    assert later.netdyno == json.loads((runs / "later" / "run.json").read_text())["netdyno"]
    assert (sooner.verified, later.verified) == (False, True)


def test_the_figures_are_those_of_a_run_read_by_itself(runs: Path, a: Cell) -> None:
    folder = one_run(runs, a)
    for phase in ("forward", "forward_backward"):
        by_itself = [
            statistics.median(block.seconds_per_iteration for block in trial.of(phase))
            for trial in read_run(folder).trials
        ]
        assert only(read(runs, phase=phase)).seconds == tuple(map(pytest.approx, by_itself))


def test_what_was_disturbed_does_not_count(runs: Path, a: Cell) -> None:
    """As in a run read by itself: the slow blocks are those beside somebody else's work."""
    run = one_run(runs, a)
    path = trial_file(run)
    told = {"stretch_seconds": 0.6, "own_busy_seconds": 0.6, "steal_seconds": 0.0}
    events = []
    for index in reversed(range(6)):  # lines may come in any order
        disturbed = index >= 4
        events.append(
            {
                **block(9.0 if disturbed else 1.0),
                **told,
                "index": index,
                "machine_busy_seconds": 1.2 if disturbed else 0.6,
            }
        )
    lines = path.read_text().splitlines()
    kept = [line for line in lines if '"block"' not in line]
    path.write_text("\n".join([kept[0], *map(json.dumps, events), *kept[1:]]) + "\n")
    assert only(read(runs)).seconds == (1.0, 0.3)


def test_a_phase_that_was_not_measured(runs: Path, a: Cell) -> None:
    one_run(runs, a)
    found = read(runs, phase="train_step")
    assert (found.runs, found.measurements) == (1, ())


@pytest.mark.parametrize("status", ["failed", "diverged", "timed_out", "interrupted"])
def test_trials_that_ended_badly_do_not_count(runs: Path, a: Cell, status: Any) -> None:
    one_run(runs, a, status=status)
    assert read(runs).measurements == ()


def test_a_trial_without_an_end_does_not_count(runs: Path, a: Cell) -> None:
    file = trial_file(one_run(runs, a))
    file.write_text("".join(file.read_text().splitlines(keepends=True)[:-1]))
    assert only(read(runs)).seconds == (pytest.approx(0.3),)


@pytest.mark.parametrize(
    "line",
    [
        b'{"event":"block","phase":"forward_backward","kind":"sample","iterations":2,"seco',
        b'{"event":"block","phase":"forward_backward","kind":"sample","iterations":0,"seconds":1}',
        b'{"event":"block","phase":"forward_backward","kind":"sample","iterations":1,"seconds":NaN}',
        b'{"event":"block","phase":"forward_backward","kind":"sample","seconds":1e999,"iterations":1}',
        b'{"event":"block","phase":"forward_backward","kind":"sample","seconds":-1,"iterations":1}',
        b'{"event":"block","phase":"forward_backward","kind":"sample","seconds":"x","iterations":[]}',
        b'{"event":"block","phase":"forward_backward","kind":"sample"}',
        b'{"event":["block"],"phase":{"a":1}}',
        b"[1, 2]",
        b"null",
        b"3",
        b"",
        b"\x00\x00\x00",
        b'{"event":"\xff\xfe"}',
        b"\xff\xfe\x80",
        b'{"event":"x"} {"event":"y"}',
        b'{"a":' + b"[" * 3000 + b"]" * 3000 + b"}",
        b'{"a":"' + b"x" * 17_000_000 + b'"}',
    ],
    ids=lambda line: line[-24:].decode("ascii", "replace"),
)
def test_odd_lines_are_passed_over(runs: Path, a: Cell, line: bytes) -> None:
    file = trial_file(one_run(runs, a))
    head, *rest = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(head + line + b"\n" + b"".join(rest))
    found = read(runs)
    assert not found.skipped
    assert only(found).seconds == (pytest.approx(0.2), pytest.approx(0.3))


def test_fields_of_later_versions_do_no_harm(runs: Path, a: Cell) -> None:
    file = trial_file(one_run(runs, a))
    head, *rest = file.read_text().splitlines()
    new = json.dumps({**block(0.2), "throttles": [1], "start": {"seconds": 2}})
    file.write_text("\n".join([head, new, '{"event":"gpu","watts":300}', *rest]) + "\n")
    assert only(read(runs)).seconds == (pytest.approx(0.2), pytest.approx(0.3))


def test_a_file_that_is_empty_or_of_another_cell(runs: Path, a: Cell, b: Cell) -> None:
    run = one_run(runs, a)
    (run / "trials" / "9998.jsonl").write_text("")
    text = trial_file(run).read_text().replace(a.key, b.key)
    (run / "trials" / "9999.jsonl").write_text(text)
    assert only(read(runs)).cell == a.key


def run_json(**changes: Any) -> Callable[[Path], None]:
    def change(run: Path) -> None:
        data = json.loads((run / "run.json").read_text())
        data.update(changes)
        (run / "run.json").write_text(json.dumps(data))

    return change


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda run: (run / "run.json").unlink(), "there is no run.json in it"),
        (lambda run: (run / "run.json").write_text('{"schema": 1,'), "not valid JSON"),
        (lambda run: (run / "run.json").write_text(""), "not valid JSON"),
        (lambda run: (run / "run.json").write_bytes(b'{"schema": "\xff"}'), "not valid JSON"),
        (lambda run: (run / "run.json").write_text("[]"), "not that of a netdyno run"),
        (lambda run: (run / "run.json").write_text("{}"), "not that of a netdyno run"),
        (run_json(cells={}), "not that of a netdyno run"),
        (run_json(schema="one"), "not that of a netdyno run"),
        (run_json(schema=99), "its schema is 99, this netdyno reads up to 1: update netdyno"),
        (run_json(started=None), "does not say when"),
        (run_json(started="yesterday"), "does not say when"),
        (run_json(started=["2026-01-01"]), "does not say when"),
    ],
)
def test_a_broken_run_is_skipped(
    runs: Path, a: Cell, damage: Callable[[Path], object], reason: str
) -> None:
    one_run(runs, a)
    shutil.copytree(runs / "one", runs / "broken")
    damage(runs / "broken")
    found = read(runs)
    assert only(found).run.name == "one"
    assert found.runs == 1
    ((broken, why),) = found.skipped.items()
    assert broken == runs / "broken"
    assert reason in why


@pytest.mark.parametrize(
    "change",
    [
        run_json(host=None),
        run_json(host="abacus"),
        run_json(verification=[1]),
        run_json(verification=None),
        run_json(netdyno=None),
    ],
)
def test_what_is_less_than_a_run_json_should_have_will_do(
    runs: Path, a: Cell, change: Callable[[Path], None]
) -> None:
    change(one_run(runs, a))
    assert len(only(read(runs)).seconds) == 2


def test_cells_that_are_no_cells(runs: Path, a: Cell) -> None:
    run_json(cells=[a.to_json(), 3, {"key": ["x"]}, {}])(one_run(runs, a))
    assert only(read(runs)).cell == a.key


def test_a_run_without_trials(runs: Path, a: Cell) -> None:
    run = one_run(runs, a)
    shutil.rmtree(run / "trials")
    found = read(runs)
    assert (found.runs, found.measurements, found.skipped) == (1, (), {})


@pytest.mark.parametrize("name", ["a*", "b[0-9]", "c?", "d'e\"f", "~", "größer", "$files", "x y"])
def test_folders_are_names_not_patterns(
    runs: Path, a: Cell, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    one_run(runs, a).rename(runs / name)
    monkeypatch.chdir(runs)
    assert only(read(Path(name))).run == Path(name)
    assert only(read(Path())).run == Path(name)


def test_a_name_that_is_not_utf_8(runs: Path, a: Cell) -> None:
    one_run(runs, a)
    try:
        shutil.copytree(runs / "one", os.fsdecode(os.fsencode(runs) + b"/caf\xe9"))
    except OSError:
        pytest.skip("this file system takes no such name")
    found = read(runs)
    assert only(found).run.name == "one"
    assert list(found.skipped.values()) == ["its name is not UTF-8"]


def test_each_folder_counts_once(runs: Path, a: Cell) -> None:
    one_run(runs, a)
    (runs / "again").symlink_to(runs / "one")
    (runs / ".hidden").mkdir()
    (runs / "file").write_text("")
    assert len(find_runs([runs, runs / "one", runs])) == 1


def test_no_folder(runs: Path) -> None:
    with pytest.raises(NetdynoError, match="runs does not exist: name folders that hold runs"):
        find_runs([runs])


def test_a_file_in_place_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(NetdynoError, match=r"cannot look into .*file: Not a directory"):
        find_runs([tmp_path / "file"])


def test_nothing_to_read() -> None:
    found = measurements([], "forward")
    assert (found.runs, found.measurements, found.skipped) == (0, (), {})
