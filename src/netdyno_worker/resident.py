"""Memory that a process really occupies, as Linux counts it; None where nobody does."""

from __future__ import annotations

import contextlib
from typing import Optional

# Of /proc/PID/clear_refs: the peak of the resident size begins anew (proc(5)).
RESET_PEAK = "5"


def reset_peak(process_id: Optional[int] = None) -> None:
    """Let the peak begin at what is resident now, where the system allows it."""
    with contextlib.suppress(OSError), open(_path(process_id, "clear_refs"), "w") as file:
        file.write(RESET_PEAK)


def peak_bytes(process_id: Optional[int] = None) -> Optional[int]:
    """The largest resident size since ``reset_peak``."""
    return _field("VmHWM", process_id)


def now_bytes(process_id: Optional[int] = None) -> Optional[int]:
    return _field("VmRSS", process_id)


def _field(name: str, process_id: Optional[int]) -> Optional[int]:
    with contextlib.suppress(OSError), open(_path(process_id, "status")) as file:
        for line in file:
            if line.startswith(name + ":"):
                return int(line.split()[1]) * 1024
    return None


def _path(process_id: Optional[int], what: str) -> str:
    return "/proc/{}/{}".format("self" if process_id is None else process_id, what)
