"""`netdyno run`, as a person starts it: a process of its own, with the null framework."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

import netdyno
from netdyno.host.lock import measuring
from netdyno.plan.cell import Cell
from netdyno.plan.rounds import rounds
from netdyno.store.run import Run, Trial, read_run

# The command line, but with few samples and without measuring this host's speed; and with an
# interrupt that arrives even if the tests themselves were started in the background.
NETDYNO = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
import netdyno.host.lock
import netdyno.plan.estimate
import netdyno.plan.job
import netdyno.session
from netdyno.plan.sampling import Sampling
netdyno.plan.estimate._flop_per_second = lambda: 1e11
netdyno.plan.job.SAMPLING = Sampling(2, 3, 0.05, 0.0005, 2)
netdyno.host.lock.LOOK_SECONDS = 0.05
netdyno.session.LOOK_SECONDS = 0.05
netdyno.session.GRACE_SECONDS = 0.3
from netdyno.cli.main import main
main()
"""
NETWORK = "conv_l5:size=4"

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Somebody's home; it and the working folder in it have a name that is easy to find again."""
    home = tmp_path / "quixote-home"
    (home / "work").mkdir(parents=True)
    return home


def lock_file(home: Path) -> Path:
    return home / "netdyno.lock"


@pytest.fixture
def start(home: Path, tmp_path: Path) -> Iterator[Start]:
    """``start("--rounds", "1", …)``: `netdyno run --frameworks null …`; ended after the test."""
    started: list[subprocess.Popen[str]] = []
    (tmp_path / "scratch").mkdir()
    own = {
        "HOME": str(home),
        "USER": "quixote-user",
        "LOGNAME": "quixote-user",
        "TMPDIR": str(tmp_path / "scratch"),
        "TORCH_HOME": str(home / "torch"),
        "NETDYNO_HOME": str(home / "netdyno"),
        "NETDYNO_LOCK": str(lock_file(home)),
        "XDG_CONFIG_HOME": str(home / "config"),
    }
    dropped = ("NETDYNO_CONFIG", "NO_COLOR", "FORCE_COLOR", "COLUMNS", "PYTHONPATH")
    environ = {key: value for key, value in os.environ.items() if key not in dropped}

    def call(*words: str, frameworks: str = "null", command: str = "run") -> subprocess.Popen[str]:
        axes = ["--frameworks", frameworks, "--networks", NETWORK]
        if command == "run":
            axes += ["--batch-size", "1", "--threads", "1"]
        process = subprocess.Popen(
            [sys.executable, "-c", NETDYNO, command, *axes, *words],
            cwd=home / "work",
            env={**environ, **own},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield call
    for process in started:
        process.kill()
        process.communicate()


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


def workers(home: Path) -> list[int]:
    """Processes with a file of this test among their arguments."""
    return [
        process.pid
        for process in psutil.process_iter(["cmdline"])
        if any(f"{home}/work/" in word for word in process.info["cmdline"] or ())
    ]


def gone(home: Path, seconds: float = 10.0) -> bool:
    limit = time.monotonic() + seconds
    while workers(home) and time.monotonic() < limit:
        time.sleep(0.02)
    return not workers(home)


def test_json_on_stdout_progress_on_stderr(start: Start, home: Path) -> None:
    code, out, err = finish(start("--rounds", "2", "--json", "--out", "here"))
    assert code == 0
    data = json.loads(out)
    (cell,) = data["cells"]
    assert cell["trials"] == {"ok": 2}
    assert cell["train_step"]["processes"] == 2
    assert "[1/2] round 1: null steady" in err
    assert "The run is in here" in err
    assert read_run(home / "work" / "here").data["status"] == "complete"


def test_table_on_stdout_without_escape_codes(start: Start) -> None:
    code, out, err = finish(start("--rounds", "1"))
    assert code == 0
    assert f"{NETWORK}, batch 1" in out
    assert "round 1" not in out
    assert "\x1b" not in out + err


def test_the_folder_is_named_by_the_time(start: Start, home: Path) -> None:
    finish(start("--rounds", "1"))
    (path,) = (home / "work" / "runs").iterdir()
    assert time.strptime(path.name, "%Y%m%d-%H%M%S")


def test_a_failing_trial_is_exit_code_1_and_the_others_are_measured(
    start: Start, home: Path
) -> None:
    modes = "steady,raise,killed"
    code, out, err = finish(start("--modes", modes, "--rounds", "1", "--json", "--out", "here"))
    assert code == 1
    by_mode = {cell["mode"]: cell for cell in json.loads(out)["cells"]}
    assert by_mode["steady"]["images_per_second"] > 0
    assert by_mode["raise"]["reason"] == "RuntimeError: told to raise"
    assert by_mode["killed"]["trials"] == {"failed": 1}
    assert "failed: RuntimeError: told to raise" in err
    assert gone(home)


def test_a_hang_is_ended_and_told(start: Start, home: Path) -> None:
    code, out, _ = finish(start("--modes", "hang", "--rounds", "1", "--trial-timeout", "1s"))
    assert code == 1
    assert "1 timed out" in out
    assert "still running after 1 s (--trial-timeout)" in out
    assert gone(home)


def steady_first(cells: list[Cell]) -> int:
    """A seed whose first round measures ``steady`` before it meets ``hang``."""
    for seed in range(100):
        ((_, order),) = rounds(cells, 1, seed)
        if [cell.mode for cell in order] == ["steady", "hang"]:
            return seed
    raise AssertionError("no such seed")


@pytest.fixture
def hanging(start: Start, home: Path, make_cell: Callable[..., Cell]) -> subprocess.Popen[str]:
    """A run with one good trial behind it whose second one hangs."""
    seed = steady_first([make_cell(mode="steady"), make_cell(mode="hang")])
    words = ["--modes", "steady,hang", "--rounds", "1", "--out", "here", "--json"]
    process = start(*words, "--seed", str(seed))
    limit = time.monotonic() + 30
    while time.monotonic() < limit and process.poll() is None:
        if any('"built"' in path.read_text() for path in home.glob("work/here/trials/*hang*")):
            return process
        time.sleep(0.02)
    raise AssertionError(process.communicate())


def by_mode(run: Run) -> dict[str, Trial]:
    return {run.cells[trial.cell]["mode"]: trial for trial in run.trials}


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_keeps_what_was_measured(
    hanging: subprocess.Popen[str], home: Path, tmp_path: Path, signum: int
) -> None:
    assert workers(home)
    hanging.send_signal(signum)
    code, out, err = finish(hanging)
    assert code == 130
    assert gone(home)
    assert list((tmp_path / "scratch").iterdir()) == []
    run = read_run(home / "work" / "here")
    assert run.data["status"] == "interrupted"
    assert run.data["ended"]
    trials = by_mode(run)
    assert trials["steady"].status == "ok"
    assert trials["steady"].of("train_step")
    assert trials["hang"].status == "interrupted"
    assert trials["hang"].reason
    data = json.loads(out)
    assert data["status"] == "interrupted"
    assert data["cells"][0]["images_per_second"] > 0
    assert "Traceback" not in err


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with its parent")
def test_the_worker_dies_with_a_controller_that_is_killed(
    hanging: subprocess.Popen[str], home: Path
) -> None:
    assert workers(home)
    hanging.kill()
    hanging.wait()
    assert gone(home)
    run = read_run(home / "work" / "here")
    assert run.data["status"] == "running"
    assert {mode: trial.status for mode, trial in by_mode(run).items()} == {
        "steady": "ok",
        "hang": "interrupted",
    }


def test_run_json_can_be_read_while_the_run_goes_on(start: Start, home: Path) -> None:
    process = start("--rounds", "3", "--out", "here")
    file = home / "work" / "here" / "run.json"
    seen = set()
    while process.poll() is None:
        if file.exists():
            seen.add(json.loads(file.read_text())["status"])
        time.sleep(0.001)
    finish(process)
    seen.add(json.loads(file.read_text())["status"])
    assert seen == {"running", "complete"}


def test_nothing_in_the_folder_tells_who_or_where(start: Start, home: Path) -> None:
    words = ["--modes", "steady,raise,crash", "--rounds", "1", "--out", "here", "--json"]
    _, out, _ = finish(start(*words))
    folder = home / "work" / "here"
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert len(files) == 1 + 3
    repository = Path(netdyno.__file__).parents[2]
    for text in [out, *(path.read_text() for path in files)]:
        for secret in ("quixote", str(repository), sys.prefix, str(home.parent)):
            assert secret not in text
    assert '"TORCH_HOME":"<path>"' in "".join(path.read_text() for path in files)


def test_a_file_and_options_that_win_over_it(start: Start, home: Path) -> None:
    (home / "work" / "matrix.toml").write_text("rounds = 9\nseed = 4\nmodes = ['drift']\n")
    finish(start("matrix.toml", "--rounds", "1", "--out", "here"))
    asked = read_run(home / "work" / "here").data["request"]
    assert (asked["rounds"], asked["seed"], asked["modes"]) == (1, 4, ["drift"])


def test_a_budget_ends_it_after_one_round(start: Start, home: Path) -> None:
    code, _, _ = finish(start("--rounds", "900", "--budget", "0.1s", "--out", "here"))
    assert code == 0
    run = read_run(home / "work" / "here")
    assert run.data["status"] == "budget"
    assert len(run.trials) == 1


def test_dry_run_measures_nothing(start: Start, home: Path) -> None:
    code, out, err = finish(start("--modes", "steady,hang", "--dry-run", "--json"))
    assert (code, err) == (0, "")
    data: dict[str, Any] = json.loads(out)
    assert len(data["cells"]) == 2
    assert len(data["rounds"]) == 3
    assert list((home / "work").iterdir()) == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--modes", "stedy"], "unknown mode of null 'stedy'; did you mean steady"),
        (["--batch-size", "0"], "--batch-size 0: must be between 1 and"),
        (["--batch-size", "999999999"], "--batch-size 999999999: must be between 1 and"),
        (["--batch-size", "8,x"], "'8,x' is no whole number, nor a list of them"),
        (["--threads", "4000"], "--threads 4000: only"),
        (["--device", "cdua"], "unknown device 'cdua'"),
        (["--budget", "soon"], "'soon' is no duration"),
        (["--modes", "steady,,drift"], "'steady,,drift' has an empty name in it"),
        (["--rounds", "0"], "--rounds 0: must be between 1 and"),
        (["nothing.toml"], "cannot read nothing.toml"),
        (["--out", "file/run"], "cannot write to file/run"),
        (["--out", "old"], "old already holds a run: name another folder with --out"),
        (["--networks", "vgg_d", "--batch-size", "65536"], "choose a smaller --batch-size"),
        (["--python", "null=nothing"], "does not exist"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    start: Start, home: Path, words: list[str], said: str
) -> None:
    (home / "work" / "file").write_text("")
    (home / "work" / "old").mkdir()
    (home / "work" / "old" / "run.json").write_text("{}")
    before = sorted((home / "work").rglob("*"))
    code, out, err = finish(start(*words))
    assert (code, out) == (2, "")
    assert said in " ".join(err.split())
    assert "Traceback" not in err
    assert sorted((home / "work").rglob("*")) == before


def holder(home: Path) -> int:
    """The process that the lock's file names, once there is one."""
    limit = time.monotonic() + 30
    while time.monotonic() < limit:
        text = lock_file(home).read_text() if lock_file(home).exists() else ""
        if '"folder": "here"' in text:
            return int(json.loads(text)["pid"])
        time.sleep(0.02)
    raise AssertionError("nobody holds it")


@pytest.fixture
def locked(hanging: subprocess.Popen[str], home: Path) -> subprocess.Popen[str]:
    """A run that measures, and does not come to an end by itself."""
    assert holder(home) == hanging.pid
    return hanging


def test_a_second_run_waits_and_then_measures(
    locked: subprocess.Popen[str], start: Start, home: Path
) -> None:
    second = start("--rounds", "1", "--out", "second", "--json")
    assert second.stderr
    said = second.stderr.readline()
    assert f"another netdyno (pid {locked.pid}, started " in said
    assert "here) is at work on this machine; waiting for it to end (Ctrl-C to give up)" in said
    assert not (home / "work" / "second").exists()
    assert locked.poll() is None
    locked.send_signal(signal.SIGINT)
    finish(locked)
    code, out, _ = finish(second)
    assert code == 0
    assert json.loads(out)["cells"][0]["trials"] == {"ok": 1}


def test_no_wait_is_exit_code_2_and_leaves_nothing(
    locked: subprocess.Popen[str], start: Start, home: Path
) -> None:
    code, out, err = finish(start("--rounds", "1", "--out", "second", "--no-wait"))
    assert (code, out) == (2, "")
    assert f"netdyno: error: another netdyno (pid {locked.pid}, started " in err
    assert "leave out --no-wait" in err
    assert not (home / "work" / "second").exists()


def test_an_interrupt_ends_the_waiting(
    locked: subprocess.Popen[str], start: Start, home: Path
) -> None:
    second = start("--rounds", "1", "--out", "second")
    assert second.stderr
    second.stderr.readline()
    second.send_signal(signal.SIGINT)
    code, _, err = finish(second)
    assert code == 130
    assert "interrupted" in err
    assert holder(home) == locked.pid
    assert not (home / "work" / "second").exists()


def test_a_folder_that_is_taken_is_told_without_waiting(
    locked: subprocess.Popen[str], start: Start
) -> None:
    code, _, err = finish(start("--rounds", "1", "--out", "here"))
    assert code == 2
    assert "here already holds a run" in err


def test_a_run_that_is_killed_frees_the_machine(
    locked: subprocess.Popen[str], start: Start
) -> None:
    locked.kill()
    locked.wait()
    code, _, err = finish(start("--rounds", "1", "--out", "second", "--no-wait"))
    assert code == 0, err


def test_how_the_machine_was_is_kept_and_no_program_named(start: Start, home: Path) -> None:
    finish(start("--rounds", "1", "--out", "here"))
    run = read_run(home / "work" / "here")
    conditions = run.data["conditions"]
    assert conditions["busy_cores"] >= 0
    assert conditions["cores"] >= 1
    assert set(conditions) == {
        *("busy_cores", "cores", "governor", "mhz", "load", "swap_percent", "on_battery")
    }
    (trial,) = run.trials
    for block in trial.blocks:
        assert block.start is not None
        assert block.stretch_seconds is not None
        assert block.stretch_seconds >= block.seconds
        assert block.own_busy_seconds is not None


def test_verify_waits_for_a_run_too(home: Path, start: Start) -> None:
    """Its load would disturb one."""
    with measuring(lock_file(home), wait=False, tell=print):
        verify = start("--no-wait", command="verify")
        code, out, err = finish(verify)
    assert (code, out) == (2, "")
    assert f"another netdyno (pid {os.getpid()}, started " in err
