"""`netdyno history`: what it prints, what it refuses, and when it fails."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from click import UsageError
from click.testing import CliRunner, Result
from tests.many_runs import HOST, write_measured_run

from netdyno.cli.history import command
from netdyno.errors import NetdynoError
from netdyno.plan.cell import Cell

MakeCell = Callable[..., Cell]
FIRST_DAY = datetime(2026, 11, 1, 3, tzinfo=UTC)


@pytest.fixture(autouse=True)
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def nightly(work: Path, make_cell: MakeCell) -> Path:
    """Twenty nights; from the thirteenth on one cell takes 6 % more, the other never changes."""
    rng = np.random.default_rng(2)
    slower, steady = make_cell(mode="drift"), make_cell(mode="steady")
    for night in range(20):
        new = night >= 12
        write_measured_run(
            work / "runs" / f"n{night:02d}",
            (FIRST_DAY + timedelta(days=night)).isoformat(),
            [
                (slower, list(0.2 * (1.06 if new else 1) * rng.lognormal(0, 0.005, 3))),
                (steady, list(0.7 * rng.lognormal(0, 0.005, 3))),
            ],
            versions={"null": "2" if new else "1", "oneDNN": "3.7"},
        )
    return work / "runs"


def shown(*words: str) -> Result:
    result = CliRunner().invoke(command, list(words), standalone_mode=False)
    if result.exception:
        raise result.exception
    return result


def row(text: str, word: str) -> str:
    (line,) = [li for li in text.splitlines() if word in li and "2026-11-20" in li]
    return " ".join(line.split())


def test_table(nightly: Path, make_cell: MakeCell) -> None:
    text = shown().stdout
    assert text.startswith("forward+backward")
    assert re.fullmatch(
        rf"{make_cell(mode='drift').key} 20 2026-11-01 2026-11-20 21\d\.\d [▁-█]{{20}} 1",
        row(text, "/drift/"),
    )
    assert re.fullmatch(r"\S+ 20 2026-11-01 2026-11-20 \d+\.\d [▁▂▃]{20} 0", row(text, "/steady/"))
    assert "\x1b" not in text
    assert "NOT VERIFIED" not in text


def test_a_change_is_told_with_both_intervals_and_what_else_changed(nightly: Path) -> None:
    (line,) = [li for li in shown().stdout.splitlines() if "slower" in li]
    found = re.fullmatch(
        r"  2026-11-13: (1\.\d{3}) \((1\.\d{3}) to (1\.\d{3})\) slower, between n11 and n12; "
        "changed meanwhile: null 1 → 2",
        line,
    )
    assert found
    ratio, low, high = map(float, found.groups())
    assert low <= 1.06 <= high
    assert 1.05 < ratio < 1.07


def test_json(nightly: Path) -> None:
    data = json.loads(shown("--json", "--cell", "*/drift/*").stdout)
    assert (data["schema"], data["phase"], data["skipped"]) == (1, "forward_backward", [])
    (series,) = data["series"]
    assert series["host"] == "Abacus 9, 4 cores"
    assert [run["run"] for run in series["runs"]] == [f"n{night:02d}" for night in range(20)]
    assert series["runs"][0]["started"] == "2026-11-01T03:00:00+00:00"
    assert series["runs"][0]["seconds"] == sorted(series["runs"][0]["process_seconds"])[1]
    (change,) = series["changes"]
    assert (change["run"], change["after"], change["until"]) == ("n12", "n11", "n12")
    assert change["ratio_low"] < change["ratio"] < change["ratio_high"]
    assert 0 < change["p"] <= 0.03
    assert change["changed"] == {"null": ["1", "2"]}


def test_another_phase(nightly: Path) -> None:
    data = json.loads(shown("--json", "--phase", "forward", "--cell", "*/drift/*").stdout)
    assert data["phase"] == "forward"
    assert data["series"][0]["runs"][0]["seconds"] == pytest.approx(0.05, rel=0.02)


def test_since(nightly: Path) -> None:
    text = shown("--since", "2026-11-13").stdout
    assert " 8 2026-11-13 2026-11-20" in row(text, "/drift/")
    assert "slower" not in text
    assert "too few" in row(shown("--since", "2026-11-14").stdout, "/drift/")
    # The thirteenth's run was at three, UTC.
    assert " 7 2026-11-14" in row(shown("--since", "2026-11-13T04:00").stdout, "/drift/")
    assert " 8 2026-11-13" in row(shown("--since", "2026-11-13T04:00+02:00").stdout, "/drift/")


@pytest.mark.parametrize(
    ("share", "code"), [("3%", 1), ("0%", 1), ("5.0%", 1), ("6.5%", 0), ("10%", 0)]
)
def test_fail_on_slowdown(nightly: Path, share: str, code: int) -> None:
    result = shown("--fail-on-slowdown", share)
    assert result.return_value == code
    assert ("slower by more than" in result.stderr) == bool(code)
    assert ("/drift/" in result.stderr) == bool(code)


def test_a_slowdown_that_was_mended_does_not_fail(work: Path, make_cell: MakeCell) -> None:
    rng = np.random.default_rng(3)
    for night in range(30):
        seconds = 0.3 if 10 <= night < 20 else 0.2
        write_measured_run(
            work / "runs" / f"n{night:02d}",
            (FIRST_DAY + timedelta(days=night)).isoformat(),
            [(make_cell(), list(seconds * rng.lognormal(0, 0.01, 3)))],
        )
    result = shown("--fail-on-slowdown", "3%")
    assert result.return_value == 0
    assert [w for w in result.stdout.split() if w in ("slower,", "faster,")] == [
        "slower,",
        "faster,",
    ]
    assert "changed meanwhile: nothing that is recorded" in result.stdout


def test_without_fail_on_slowdown_a_slowdown_is_no_failure(nightly: Path) -> None:
    assert shown().return_value == 0


def test_broken_folders_are_counted_and_the_first_is_named(nightly: Path) -> None:
    for name in ("n03", "n05"):
        (nightly / name / "run.json").write_text("{")
    (nightly / "notes").mkdir()
    result = shown()
    assert result.stderr.splitlines() == [
        "skipped 3 folders, the first of them runs/n03: its run.json is not valid JSON"
    ]
    assert " 18 2026-11-01" in row(result.stdout, "/drift/")
    assert [s["run"] for s in json.loads(shown("--json").stdout)["skipped"]] == [
        "n03",
        "n05",
        "notes",
    ]


def test_folders_and_single_runs(nightly: Path, work: Path) -> None:
    (nightly / "n19").rename(work / "apart")
    text = shown("runs", "apart").stdout
    assert " 20 2026-11-01 2026-11-20" in row(text, "/drift/")


def test_hosts_are_told_apart(nightly: Path, work: Path, make_cell: MakeCell) -> None:
    assert "Abacus" not in shown().stdout
    write_measured_run(
        work / "runs" / "elsewhere",
        "2026-11-20T00:00:00+00:00",
        [(make_cell(mode="drift"), [9.0])],
        host={**HOST, "cpu": {"model": "[b]Slide[/b] rule", "logical_cores": 1}},
    )
    lines = [li for li in shown("--cell", "*drift*").stdout.splitlines() if "2026-11-20" in li]
    assert sorted(re.findall(r"on (.*?)  ", "\n".join(lines))) == [
        "Abacus 9, 4 cores",
        "[b]Slide[/b] rule, 1 core",
    ]


def test_a_network_that_was_redefined_is_another_series(
    nightly: Path, work: Path, make_cell: MakeCell
) -> None:
    file = nightly / "n19" / "run.json"
    data = json.loads(file.read_text())
    old = data["cells"][0]["network_hash"]
    data["cells"][0]["network_hash"] = "0123456789abcdef"
    file.write_text(json.dumps(data))
    text = shown("--cell", "*drift*").stdout
    assert f"network {old[:8]}" in text
    assert "network 01234567" in text


def test_what_was_not_verified_is_marked(work: Path, make_cell: MakeCell) -> None:
    write_measured_run(
        work / "runs" / "a", "2026-11-20T00:00:00+00:00", [(make_cell(), [1.0])], verified=False
    )
    text = shown().stdout
    assert f"{make_cell().key} †" in text
    assert "NOT VERIFIED" in text


def test_what_folders_say_is_shown_not_obeyed(work: Path, make_cell: MakeCell) -> None:
    odd = make_cell(mode="[red]x[/]\x1b]0;title\x07")
    for night in range(16):
        write_measured_run(
            work / "runs" / f"n{night:02d}\x1b[31m",
            (FIRST_DAY + timedelta(days=night)).isoformat(),
            [(odd, [1.0 + night % 2 / 1000 + (night >= 8)])],
            versions={"[b]lib\x1b[0m": "1" if night < 8 else "\x1b[2J[/b]" + 99 * "2"},
        )
    (work / "runs" / "\x1b[31m").mkdir()
    result = shown("--fail-on-slowdown", "1%")
    assert "\x1b" not in result.output
    assert "/[red]x[/] ]0;title" in result.stdout
    assert "[b]lib [0m 1 → [2J[/b]222" in result.stdout
    assert "2…" in result.stdout
    assert json.loads(shown("--json").stdout)["series"][0]["cell"] == odd.key


def test_no_colour_codes_where_nobody_wants_them(nightly: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "netdyno.cli.main", "history"],
        capture_output=True,
        text=True,
        env={"NO_COLOR": "1", "PYTHONPATH": ":".join(sys.path), "PYTHONIOENCODING": "utf-8"},
        check=False,
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert "\x1b" not in result.stdout
    assert "slower" in result.stdout


def refused(*words: str) -> str:
    with pytest.raises((NetdynoError, UsageError)) as caught:
        shown(*words)
    if isinstance(caught.value, UsageError):
        assert caught.value.exit_code == 2
        return caught.value.format_message()
    return str(caught.value)


def test_no_runs_folder() -> None:
    assert refused() == "runs does not exist: name folders that hold runs"
    assert refused("x/y") == "x/y does not exist: name folders that hold runs"


def test_no_run_in_the_folder(work: Path) -> None:
    (work / "runs" / "empty").mkdir(parents=True)
    assert refused() == "there is no run in runs: name folders that hold runs"


def test_bad_dates(nightly: Path) -> None:
    for word in ("yesterday", "2026-13-01", "1.11.2026", ""):
        assert f"'{word}' is no date like 2026-10-31" in refused("--since", word)
    assert refused("--since", "2026-12-01") == (
        "no run in runs was started since then: the newest one with forward_backward is n19, "
        "of 2026-11-20 03:00 UTC"
    )


@pytest.mark.parametrize("word", ["3", "-3%", "x%", "%", "nan%", "1e3%"])
def test_bad_shares(nightly: Path, word: str) -> None:
    assert f"'{word}' is no share: write 2% or 0.02" in refused("--fail-on-slowdown", word)


def test_a_pattern_without_a_match_names_the_nearest(nightly: Path, make_cell: MakeCell) -> None:
    message = refused("--cell", "null/dirft/*")
    assert message.startswith("no cell matches 'null/dirft/*'; the nearest: null/")
    assert make_cell(mode="drift").key in message


def test_a_phase_that_was_never_measured(nightly: Path) -> None:
    assert "no run in runs has a good trial with train_step" in refused("--phase", "train_step")
    assert "'step' is not one of" in refused("--phase", "step")


def test_help_loads_neither_duckdb_nor_numpy() -> None:
    code = (
        "import sys; from netdyno.cli.history import command\n"
        "try: command(['--help'])\n"
        "except SystemExit: print(sorted({'duckdb', 'numpy'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": ":".join(sys.path)},
        check=True,
    )
    assert "--fail-on-slowdown" in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"
