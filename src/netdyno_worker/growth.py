"""The memory of a piece of work as the growth of a process: where no allocation can be seen."""

from __future__ import annotations

import contextlib
import ctypes
from typing import Callable, Optional

from netdyno_worker import resident
from netdyno_worker.allocations import Instrument, Seen

# What the kernel counts late: each processor keeps some pages to itself.
SLACK_BYTES = 2**20


class Growth(Instrument):
    """How far a process' resident size rises above where it was before the work.

    It counts pages that are touched. Blocks that were given back before must have left the process:
    this one is made to give them back, another must do so by itself (see MALLOC in
    frameworks/torch7/memory.py). What the work leaves behind is in the peak too.
    """

    def __init__(self, process_id: Optional[int]) -> None:
        self.source = "growth of the resident size"
        self._pid = process_id
        self.problem = ""
        resident.reset_peak(process_id)
        peak, now = resident.peak_bytes(process_id), resident.now_bytes(process_id)
        if peak is None or now is None or peak > now + SLACK_BYTES:
            self.problem = "the system does not let the peak of the resident size begin anew"

    def watch(self, work: Callable[[], None]) -> Seen:
        if self._pid is None:
            _trim()
        before = self._told(resident.now_bytes)
        resident.reset_peak(self._pid)
        work()
        peak, after = self._told(resident.peak_bytes), self._told(resident.now_bytes)
        return Seen(peak - before, after - before, [])

    def _told(self, what: Callable[[Optional[int]], Optional[int]]) -> int:
        found = what(self._pid)
        if found is None:
            raise RuntimeError("the process that is watched has gone")
        return found


def _trim() -> None:
    """Let glibc give back what it keeps of freed memory: the work would find it there."""
    with contextlib.suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)
