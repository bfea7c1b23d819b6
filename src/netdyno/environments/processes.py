"""The child processes of a setup: started in their own groups, logged, and ended all at once."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

__all__ = ["Outcome", "Processes", "StoppedError"]

_TAIL_LINES = 400
_GRACE_SECONDS = 3.0


class StoppedError(Exception):
    """The setup was interrupted: nothing more is to be started."""


@dataclass(frozen=True)
class Outcome:
    """How a command ended; ``lines`` are the last ones it printed, both streams together."""

    returncode: int
    lines: tuple[str, ...] = ()
    timed_out: bool = False

    @property
    def ok(self) -> bool:
        return self.returncode == 0

    def tail(self, count: int = 12) -> str:
        """The last ``count`` lines that are not blank, indented, for an error message."""
        lines = [line for line in self.lines if line.strip()][-count:]
        return "".join(f"\n    {line}" for line in lines)


class Processes:
    """Runs commands, from several threads; ``stop`` ends every one that is running.

    Each command is the leader of its own session, so that an interrupt from the terminal reaches
    netdyno alone, which then ends whole groups: pip's own children go with it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[str]] = set()
        self._stopping = False

    @property
    def stopping(self) -> bool:
        return self._stopping

    def run(
        self,
        argv: Sequence[str | Path],
        environ: Mapping[str, str],
        *,
        log: IO[str] | None = None,
        on_line: Callable[[str], None] | None = None,
        timeout_seconds: float | None = None,
    ) -> Outcome:
        """Run to the end, copying output to ``log``. Raises StoppedError after ``stop``."""
        if log:
            log.write(f"$ {' '.join(map(str, argv))}\n")
        lines: deque[str] = deque(maxlen=_TAIL_LINES)
        timed_out = threading.Event()
        try:
            process = self._start(argv, environ)
        except OSError as error:
            return Outcome(127, (str(error),))
        timer = threading.Timer(timeout_seconds or 0, self._expire, (process, timed_out))
        if timeout_seconds:
            timer.start()
        try:
            assert process.stdout
            for line in process.stdout:
                lines.append(line.rstrip())
                if log:
                    log.write(line)
                    log.flush()
                if on_line:
                    on_line(line)
            returncode = process.wait()
        finally:
            timer.cancel()
            self._end(process)
        if self._stopping:
            raise StoppedError
        return Outcome(returncode, tuple(lines), timed_out.is_set())

    def stop(self) -> None:
        """End every running command, politely and then not, and refuse new ones."""
        with self._lock:
            self._stopping = True
            running = list(self._running)
        for process in running:
            _signal_group(process, signal.SIGTERM)
        for process in running:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_GRACE_SECONDS)
            _signal_group(process, signal.SIGKILL)

    def _start(
        self, argv: Sequence[str | Path], environ: Mapping[str, str]
    ) -> subprocess.Popen[str]:
        with self._lock:
            if self._stopping:
                raise StoppedError
            process = subprocess.Popen(
                [str(word) for word in argv],
                # Never the caller's folder: `python -c` would import modules from it.
                cwd=Path(os.sep),
                env=dict(environ),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                encoding="utf-8",
                errors="replace",
                start_new_session=True,
            )
            self._running.add(process)
            return process

    def _end(self, process: subprocess.Popen[str]) -> None:
        """Leave nothing behind: a command that is still running here failed to be read."""
        if process.poll() is None:
            _signal_group(process, signal.SIGKILL)
            process.wait()
        if process.stdout:
            process.stdout.close()
        with self._lock:
            self._running.discard(process)

    @staticmethod
    def _expire(process: subprocess.Popen[str], timed_out: threading.Event) -> None:
        timed_out.set()
        _signal_group(process, signal.SIGKILL)


def _signal_group(process: subprocess.Popen[str], number: signal.Signals) -> None:
    # The leader may have ended while its children live on, so the group is what is signalled.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
