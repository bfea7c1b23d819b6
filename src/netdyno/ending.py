"""How a worker ended: from its exit code, the events that it wrote, its last words."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path
from typing import Any

from netdyno.outcome import Status
from netdyno.redact import printable

__all__ = ["ending", "last_words"]

# Of a worker's output, to find its last words: a stack trace may stand behind them.
TAIL_BYTES = 16_000
# What glog (Caffe), Abseil and TensorFlow print before they abort the process.
FATAL = re.compile(
    r"^(?:F\d{4,8} [^\]\n]*\]|\d{4}-\d\d-\d\d [^\]\n]*: F [^\]\n]*\]) (.+)", re.MULTILINE
)


def ending(returncode: int, failure: dict[str, Any] | None) -> tuple[Status, str]:
    """Status and reason. ``failure``: the worker's event ``failed``, if it wrote one."""
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


def last_words(output: Path) -> str:
    """What the worker said of its end: a fatal message if there is one, else its last line."""
    tail = _tail(output)
    fatal = FATAL.findall(tail)
    lines = [line.strip() for line in fatal or tail.splitlines() if line.strip()]
    words = printable(lines[-1])[:200] if lines else ""
    return f"; its last words: {words}" if words else ""
