"""One trial: start the worker, follow its events, end it whatever happens, say how it ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from netdyno.ending import ending, last_words
from netdyno.environments import Environment
from netdyno.event_file import EventReader, Listener, append, as_line
from netdyno.host.gpu_watch import GpuWatch, watching
from netdyno.launch import local
from netdyno.outcome import Outcome
from netdyno.plan.cell import Cell
from netdyno.redact import Redactor, printable
from netdyno_worker.protocol import is_out_of_memory

__all__ = ["Task", "Worker", "run_trial"]

# How often the controller looks at the events: seldom, since it shares the machine.
LOOK_SECONDS = 0.5
# The same while nothing is timed that a look would disturb: a worker waits for another one.
SOON_SECONDS = 0.05
# Between asking a process group to end and ending it.
GRACE_SECONDS = 2.0


@dataclass(frozen=True)
class Task:
    """A trial that is to be made: ``job`` is what its worker is told."""

    cell: Cell
    environment: Environment
    job: Mapping[str, Any]
    timeout_seconds: float
    redact: Redactor


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
    with Worker(Task(cell, environment, job, timeout_seconds, redact), events) as worker:
        return worker.measure(events, listener, stopped=stopped)


class Worker:
    """The process of one trial and its folder; leaving the context ends both.

    Args:
        task: what it is to do.
        events: what it appends to. None to start it ahead of its turn (``turns`` of its job): it
            learns of its events when ``measure`` gives it the turn, and leaves no trace until then.
    """

    def __init__(self, task: Task, events: Path | None = None) -> None:
        self.task = task
        self._start = time.monotonic()
        self._oom_kills = _oom_kills()
        self._problem = ""
        self._preparing = events is None
        self._hung = False
        # What its preparation took if it went no further.
        self._prepared_seconds = 0.0
        with ExitStack() as stack:
            folder = stack.enter_context(
                tempfile.TemporaryDirectory(prefix="netdyno-", ignore_cleanup_errors=True)
            )
            scratch = Path(folder)
            job = scratch / "job.json"
            job.write_text(json.dumps({**task.job, "scratch": folder}), encoding="utf-8")
            self._output = scratch / "output.txt"
            # The worker runs in a folder of its own.
            told = events.absolute() if events else scratch / "events.jsonl"
            self._ahead = None if events else EventReader(told)
            try:
                sink = stack.enter_context(self._output.open("wb"))
                self._process = stack.enter_context(
                    _worker(task, job, told, scratch, sink, ahead=events is None)
                )
            except OSError as error:  # the interpreter has gone since the run began
                self._problem = f"cannot start {task.environment.python}: {error.strerror}"
                self._preparing = False
            self._stack = stack.pop_all()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """End it, whatever it is at."""
        self._stack.close()

    def preparing(self) -> bool:
        """Whether it still does what it does ahead of its turn; if it takes too long, it is ended.

        The limit is that of a trial.
        """
        if self._preparing and self._ahead:
            self._ahead.drain()
            taken = time.monotonic() - self._start
            ended = self._process.poll() is not None
            ready = "ready" in self._ahead.seen
            if not ended and not ready and taken >= self.task.timeout_seconds:
                self._hung = ended = True
                _end(self._process)
            if ended:
                self._prepared_seconds = taken
            self._preparing = not ended and not ready
        return self._preparing

    def measure(
        self,
        events: Path,
        listener: Listener = lambda event: None,
        others_prepare: Callable[[], bool] = lambda: False,
        stopped: threading.Event | None = None,
    ) -> Outcome:
        """Follow the trial to its end; if it was started ahead, this gives it the turn.

        ``events``: what it appends to. ``others_prepare``: whether another worker prepares, which
        a trial with turns waits for before anything is timed but its first iteration. The time
        limit counts from here, without that waiting; the seconds of the outcome count from here.
        ``stopped``: see ``run_trial``.
        """
        start = time.monotonic()
        timeout, redact = self.task.timeout_seconds, self.task.redact
        if self._problem:
            return Outcome("failed", redact(self._problem), time.monotonic() - start)
        events = events.absolute()
        reader = EventReader(events)
        if self._ahead:
            self._tell(json.dumps(str(events)))
        watch: GpuWatch | None = None
        try:
            with watching(self.task.cell.device, self._process.pid) as watch:
                timed_out = self._follow(
                    reader, listener, start + timeout, watch, others_prepare, stopped
                )
        finally:
            _end(self._process)
            if self._ahead and not reader.grown():  # it went no further than its preparation
                append(events, self._ahead.text())
            if watch:
                append(events, "".join(map(as_line, watch.samples)))
        reader.drain(listener)
        seconds = self._prepared_seconds or time.monotonic() - start
        if timed_out or self._hung:
            doing = "preparing" if self._hung else "running"
            reason = f"still {doing} after {timeout:g} s (--trial-timeout)"
            return Outcome("timed_out", reason, seconds)
        status, reason = ending(self._process.returncode, reader.failure)
        if status == "failed" and _oom_kills() > self._oom_kills:
            status, reason = "out_of_memory", "the kernel's out-of-memory killer ended it"
        if status == "failed" and not reader.failure:
            words = last_words(self._output)
            reason = f"{reason}{words}"
            if is_out_of_memory(words):  # it aborted with these words
                status = "out_of_memory"
        return Outcome(status, redact(printable(reason)), seconds)

    def _follow(
        self,
        reader: EventReader,
        listener: Listener,
        deadline: float,
        watch: GpuWatch | None,
        others_prepare: Callable[[], bool],
        stopped: threading.Event | None,
    ) -> bool:
        """Wait for the worker to end, passing events on and watching the GPU where there is one.

        True if the deadline passed first.
        """
        ended = threading.Event()

        def wait() -> None:
            self._process.wait()
            ended.set()

        # A thread that sleeps in waitpid: Popen.wait(timeout) would poll, and disturb what we
        # measure.
        threading.Thread(target=wait, daemon=True).start()
        quiet = self._ahead is None
        before = sampled = time.monotonic()
        pause = 0.0
        while not ended.wait(max(0.0, min(pause, deadline - time.monotonic()))):
            now = time.monotonic()
            reader.drain(listener)
            if not quiet:
                if "awaiting_quiet" in reader.seen:
                    deadline += now - before  # what others take is not this trial's time
                quiet = not others_prepare()
                if quiet:
                    self._tell("")
            if watch and (pause == LOOK_SECONDS or now - sampled >= LOOK_SECONDS):
                watch.sample()
                sampled = now
            if stopped and stopped.is_set():
                raise KeyboardInterrupt
            if now >= deadline:
                return True
            before = now
            pause = LOOK_SECONDS if quiet else SOON_SECONDS
        return False

    def _tell(self, line: str) -> None:
        """To a worker that has turns, and may have ended."""
        assert self._process.stdin
        with suppress(OSError):
            self._process.stdin.write(line.encode() + b"\n")


@contextmanager
def _worker(
    task: Task, job: Path, events: Path, scratch: Path, sink: Any, ahead: bool
) -> Iterator[subprocess.Popen[bytes]]:
    """The worker process, in a session of its own; no member of it outlives the block.

    A session of its own, so that an interrupt from the terminal reaches only netdyno, which then
    ends the worker in order.
    """
    process = subprocess.Popen(
        local.command(task.environment, job, events),
        bufsize=0,
        env=local.environ(task.environment, task.cell, scratch),
        cwd=scratch,
        stdin=subprocess.PIPE if ahead else subprocess.DEVNULL,
        stdout=sink,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        _end(process)
        if process.stdin:
            process.stdin.close()


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


def _oom_kills() -> int:
    """How often Linux's out-of-memory killer has struck since boot; 0 where it is not told."""
    try:
        for line in Path("/proc/vmstat").read_text().splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    except OSError:
        pass
    return 0
