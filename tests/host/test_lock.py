"""The machine's lock, between real processes."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from netdyno.errors import NetdynoError
from netdyno.host import lock
from netdyno.host.lock import measuring

HOLD = """
import subprocess, sys
from pathlib import Path
from netdyno.host.lock import measuring
with measuring(Path(sys.argv[1]), wait=True, tell=print) as held:
    held.tell("20260101-000000")
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    print(child.pid, flush=True)
    sys.stdin.readline()
    child.communicate()
"""

Hold = Callable[[], "subprocess.Popen[str]"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "the.lock"


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "LOOK_SECONDS", 0.02)


@pytest.fixture
def hold(path: Path) -> Iterator[Hold]:
    """``hold()``: another process that holds the lock until its stdin gets a line."""
    started: list[subprocess.Popen[str]] = []
    children: list[int] = []

    def start() -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", HOLD, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        assert process.stdout
        children.append(int(process.stdout.readline()))
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()
    for pid in children:
        if psutil.pid_exists(pid):
            os.kill(pid, signal.SIGKILL)


def quiet(text: str) -> None:
    raise AssertionError(f"said {text!r}")


def free(path: Path) -> bool:
    try:
        with measuring(path, wait=False, tell=quiet):
            return True
    except NetdynoError:
        return False


def test_it_is_held_and_free_again(path: Path) -> None:
    with measuring(path, wait=False, tell=quiet):
        assert not free(path)
    assert free(path)
    assert path.read_bytes() == b""


def test_every_user_may_open_it_whatever_the_umask_is(path: Path) -> None:
    before = os.umask(0o077)
    try:
        with measuring(path, wait=False, tell=quiet):
            pass
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666


def test_no_wait_names_the_holder(path: Path, hold: Hold) -> None:
    process = hold()
    with (
        pytest.raises(NetdynoError) as caught,
        measuring(path, wait=False, tell=quiet),
    ):
        pass
    assert caught.match(
        rf"another netdyno \(pid {process.pid}, started \d\d:\d\d, 20260101-000000\)"
        " is at work on this machine; .*--no-wait"
    )
    # Being refused takes nothing from the holder.
    assert json.loads(path.read_text())["pid"] == process.pid


def test_waiting_is_told_at_once_and_ends_with_the_holder(path: Path, hold: Hold) -> None:
    process = hold()
    said: list[str] = []
    told = threading.Event()
    order: list[str] = []

    def tell(text: str) -> None:
        said.append(text)
        told.set()

    def wait() -> None:
        with measuring(path, wait=True, tell=tell):
            order.append("held")

    waiting = threading.Thread(target=wait)
    waiting.start()
    assert told.wait(10)
    assert order == []
    order.append("ended")
    process.communicate("\n")
    waiting.join(10)
    assert order == ["ended", "held"]
    (text,) = said
    assert f"(pid {process.pid}, " in text
    assert "waiting for it to end (Ctrl-C to give up)" in text


def test_a_killed_holder_frees_it_though_its_children_live(path: Path, hold: Hold) -> None:
    process = hold()
    process.send_signal(signal.SIGKILL)
    process.wait()
    with measuring(path, wait=True, tell=quiet):
        pass


def test_the_words_of_a_dead_holder_are_not_believed(path: Path, hold: Hold) -> None:
    """They stay in the file; the next holder may not have written its own yet."""
    process = hold()
    process.kill()
    process.communicate()
    left = path.read_text()
    assert json.loads(left)["pid"] == process.pid
    with measuring(path, wait=False, tell=quiet):
        path.write_text(left)
        with (
            pytest.raises(NetdynoError, match="another netdyno is at work"),
            measuring(path, wait=False, tell=quiet),
        ):
            pass


@pytest.mark.parametrize(
    "text",
    [
        "",
        "garbage",
        "[]",
        "{}",
        '{"pid": "x", "created": 1, "folder": ""}',
        '{"pid": -1, "created": 1, "folder": ""}',
        '{"pid": 1e300, "created": 1, "folder": ""}',
        # A number that another program has now.
        json.dumps({"pid": os.getpid(), "created": 5.0, "folder": "x"}),
    ],
)
def test_what_anybody_may_have_written_there_is_not_believed(path: Path, text: str) -> None:
    with measuring(path, wait=False, tell=quiet):
        path.write_text(text)
        with (
            pytest.raises(NetdynoError, match="another netdyno is at work"),
            measuring(path, wait=False, tell=quiet),
        ):
            pass


def test_control_characters_do_not_reach_the_terminal(path: Path) -> None:
    with measuring(path, wait=False, tell=quiet) as held:
        held.tell("\x1b[31mred\n")
        with (
            pytest.raises(NetdynoError) as caught,
            measuring(path, wait=False, tell=quiet),
        ):
            pass
    assert "\x1b" not in str(caught.value)


def test_a_link_is_not_followed(path: Path, tmp_path: Path) -> None:
    """In /tmp anybody may make one, to have somebody else's file emptied."""
    precious = tmp_path / "precious"
    precious.write_text("kept")
    path.symlink_to(precious)
    with (
        pytest.raises(NetdynoError, match="NETDYNO_LOCK"),
        measuring(path, wait=True, tell=quiet),
    ):
        pass
    assert precious.read_text() == "kept"


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with (
        pytest.raises(NetdynoError, match=r"cannot use .*the\.lock.* NETDYNO_LOCK"),
        measuring(tmp_path / "none" / "the.lock", wait=True, tell=quiet),
    ):
        pass
