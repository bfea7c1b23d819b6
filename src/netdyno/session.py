"""One trial: start the worker, follow its events, end it whatever happens, say how it ended."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from netdyno.environments import Environment
from netdyno.host.gpu_watch import GpuWatch, watching
from netdyno.launch import local
from netdyno.outcome import Outcome, Status
from netdyno.plan.cell import Cell
from netdyno.redact import Redactor, printable
from netdyno_worker.protocol import is_out_of_memory

__all__ = ["run_trial"]

# How often the controller looks at the events: seldom, since it shares the machine.
LOOK_SECONDS = 0.5
# Between asking a process group to end and ending it.
GRACE_SECONDS = 2.0
# Of a worker's output, to find its last words: a stack trace may stand behind them.
TAIL_BYTES = 16_000
# What glog (Caffe), Abseil and TensorFlow print before they abort the process.
FATAL = re.compile(
    r"^(?:F\d{4,8} [^\]\n]*\]|\d{4}-\d\d-\d\d [^\]\n]*: F [^\]\n]*\]) (.+)", re.MULTILINE
)

Listener = Callable[[dict[str, Any]], None]


def run_trial(
    cell: Cell,
    environment: Environment,
    job: Mapping[str, Any],
    events: Path,
    *,
    timeout_seconds: float,
    redact: Redactor,
    listener: Listener = lambda event: None,
    stopped: threading.Event | None = None,
) -> Outcome:
    """Measure one cell in a fresh process, which appends to ``events``.

    Never raises for what the worker does. On KeyboardInterrupt the worker and its children are
    ended before it is raised again. In another thread than the main one ``stopped``, once it is
    set, takes its place.
    """
    start = time.monotonic()
    events = events.absolute()  # the worker runs in a folder of its own
    before = _oom_kills()
    with tempfile.TemporaryDirectory(prefix="netdyno-", ignore_cleanup_errors=True) as folder:
        scratch = Path(folder)
        job_path = scratch / "job.json"
        job_path.write_text(json.dumps({**job, "scratch": folder}), encoding="utf-8")
        output = scratch / "output.txt"
        reader = _EventReader(events)
        watch: GpuWatch | None = None
        try:
            with (
                output.open("wb") as sink,
                _worker(cell, environment, job_path, events, scratch, sink) as process,
                watching(cell.device, process.pid) as watch,
            ):
                timed_out = _follow(
                    process, reader, listener, start + timeout_seconds, watch, stopped
                )
        except OSError as error:  # the interpreter has gone since the run began
            reason = f"cannot start {environment.python}: {error.strerror}"
            return Outcome("failed", redact(reason), time.monotonic() - start)
        finally:
            if watch:
                _append(events, watch.samples)
        reader.drain(listener)
        tail = _tail(output)
    status, reason = _verdict(process.returncode, reader.failure, timed_out, timeout_seconds)
    if status == "failed" and _oom_kills() > before:
        status, reason = "out_of_memory", "the kernel's out-of-memory killer ended it"
    if status == "failed" and not reader.failure:
        reason = f"{reason}{_last_words(tail)}"
        if is_out_of_memory(_last_words(tail)):  # it aborted with these words
            status = "out_of_memory"
    return Outcome(status, redact(printable(reason)), time.monotonic() - start)


@contextmanager
def _worker(
    cell: Cell,
    environment: Environment,
    job: Path,
    events: Path,
    scratch: Path,
    sink: Any,
) -> Iterator[subprocess.Popen[bytes]]:
    """The worker process, in a session of its own; no member of it outlives the block.

    A session of its own, so that an interrupt from the terminal reaches only netdyno, which then
    ends the worker in order.
    """
    process = subprocess.Popen(
        local.command(environment, job, events),
        env=local.environ(environment, cell, scratch),
        cwd=scratch,
        stdin=subprocess.DEVNULL,
        stdout=sink,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        _end(process)


def _follow(
    process: subprocess.Popen[bytes],
    reader: _EventReader,
    listener: Listener,
    deadline: float,
    watch: GpuWatch | None,
    stopped: threading.Event | None,
) -> bool:
    """Wait for the worker to end, passing events on and watching the GPU where there is one.

    True if the deadline passed first.
    """
    ended = threading.Event()

    def wait() -> None:
        process.wait()
        ended.set()

    # A thread that sleeps in waitpid: Popen.wait(timeout) would poll, and disturb what we measure.
    threading.Thread(target=wait, daemon=True).start()
    while not ended.wait(max(0.0, min(LOOK_SECONDS, deadline - time.monotonic()))):
        reader.drain(listener)
        if watch:
            watch.sample()
        if stopped and stopped.is_set():
            raise KeyboardInterrupt
        if time.monotonic() >= deadline:
            return True
    return False


def _append(events: Path, more: list[dict[str, Any]]) -> None:
    """To what a worker that has ended wrote, even if it died within a line."""
    text = "".join(json.dumps(event, separators=(",", ":")) + "\n" for event in more)
    with events.open("a+b") as file:
        file.seek(max(0, file.tell() - 1))
        cut_off = file.read(1) not in (b"\n", b"")
        file.write((b"\n" if cut_off else b"") + text.encode())


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ask the whole group to end, then end it; also what a finished worker left running.

    A second interrupt during the wait does not save it.
    """
    try:
        limit = time.monotonic() + GRACE_SECONDS
        alive = _signal_group(process, signal.SIGTERM)
        while alive and time.monotonic() < limit:
            time.sleep(0.02)
            alive = _signal_group(process, 0)
    finally:
        _signal_group(process, signal.SIGKILL)
        process.wait()


def _signal_group(process: subprocess.Popen[bytes], signum: int) -> bool:
    """False if nobody is left in the group."""
    process.poll()  # a zombie leader would count as alive
    try:
        os.killpg(process.pid, signum)
    except (ProcessLookupError, PermissionError):  # macOS: the latter, of a group of zombies
        return False
    return True


class _EventReader:
    """Reads whole lines as they come. Lines that are no JSON object are passed over."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = path.stat().st_size if path.exists() else 0
        self.failure: dict[str, Any] | None = None
        self.finished = False

    def drain(self, listener: Listener) -> None:
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                data = file.read()
        except FileNotFoundError:
            return
        end = data.rfind(b"\n") + 1
        self._offset += end
        for line in data[:end].splitlines():
            try:
                event = json.loads(line)
            except ValueError:
                continue
            if isinstance(event, dict):
                if event.get("event") == "failed":
                    self.failure = event
                listener(event)


def _verdict(
    returncode: int, failure: dict[str, Any] | None, timed_out: bool, timeout_seconds: float
) -> tuple[Status, str]:
    if timed_out:
        return "timed_out", f"still running after {timeout_seconds:g} s (--trial-timeout)"
    if failure:
        return failure["status"], str(failure["reason"])
    if returncode < 0:
        try:
            name = signal.Signals(-returncode).name
        except ValueError:
            name = "unknown"
        return "failed", f"killed by signal {-returncode} ({name})"
    if returncode:
        return "failed", f"the worker ended with exit code {returncode}"
    return "ok", ""


def _tail(path: Path) -> str:
    with path.open("rb") as file:
        file.seek(0, os.SEEK_END)
        file.seek(max(0, file.tell() - TAIL_BYTES))
        return file.read().decode("utf-8", errors="replace")


def _last_words(tail: str) -> str:
    """What the worker said of its end: a fatal message if there is one, else its last line."""
    fatal = FATAL.findall(tail)
    lines = [line.strip() for line in fatal or tail.splitlines() if line.strip()]
    words = printable(lines[-1])[:200] if lines else ""
    return f"; its last words: {words}" if words else ""


def _oom_kills() -> int:
    """How often Linux's out-of-memory killer has struck since boot; 0 where it is not told."""
    try:
        for line in Path("/proc/vmstat").read_text().splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    except OSError:
        pass
    return 0
