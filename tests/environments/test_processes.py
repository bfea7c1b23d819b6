"""Children are ended with all of their own children."""

from __future__ import annotations

import io
import threading
import time
from pathlib import Path

import psutil
import pytest

from netdyno.environments import processes as processes_module
from netdyno.environments.environ import clean_environ
from netdyno.environments.processes import Processes, StoppedError


def _gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def _until(condition: object, seconds: float = 10.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if callable(condition) and condition():
            return True
        time.sleep(0.02)
    return False


def test_output_is_kept_and_logged() -> None:
    log, lines = io.StringIO(), []
    done = Processes().run(
        ["sh", "-c", "echo one; echo two >&2; exit 3"],
        clean_environ(),
        log=log,
        on_line=lines.append,
    )
    assert (done.returncode, done.lines, done.ok) == (3, ("one", "two"), False)
    assert lines == ["one\n", "two\n"]
    assert log.getvalue().endswith("one\ntwo\n")


def test_what_cannot_be_started_is_an_outcome() -> None:
    assert Processes().run(["/nonexistent/python"], clean_environ()).returncode == 127


def test_timeout() -> None:
    done = Processes().run(["sleep", "60"], clean_environ(), timeout_seconds=0.1)
    assert done.timed_out
    assert not done.ok


def test_stop_ends_grandchildren_and_refuses_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes_module, "_GRACE_SECONDS", 0.1)
    processes = Processes()
    errors: list[BaseException] = []
    script = f"trap '' TERM; sleep 60 & echo $! > {tmp_path}/pid; wait; sleep 60"

    def work() -> None:
        try:
            processes.run(["sh", "-c", script], clean_environ())
        except StoppedError as error:
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    pid_file = tmp_path / "pid"
    assert _until(lambda: pid_file.exists() and pid_file.read_text().strip())
    processes.stop()
    thread.join(10)
    assert errors
    assert _until(lambda: _gone(int(pid_file.read_text())))
    with pytest.raises(StoppedError):
        processes.run(["true"], clean_environ())


def test_clean_environ(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__", "OTHER"):
        monkeypatch.setenv(name, "x")
    managed = clean_environ({"PYTHONPATH": "worker"})
    assert managed["PYTHONPATH"] == "worker"
    assert managed["OTHER"] == "x"
    assert not {"PYTHONHOME", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__"} & set(managed)
    existing = clean_environ(managed=False)
    assert existing["PYTHONPATH"] == "x"
    assert "VIRTUAL_ENV" not in existing
