"""Every allocation of a piece of work, seen from outside of the framework: by memray.

What counts are blocks that are allocated *and* freed within the work. That leaves out inputs and
parameters, which were there before, and outputs and gradients, which are there afterwards,
without anybody having to say which they are.
"""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional, Tuple

import numpy as np

# The folder of a memray that this Python has itself.
INSTALLED = ""
# What is held against a known answer before the instrument is believed.
KNOWN_BYTES = 10 * 2**20
KEPT_BYTES = 3 * 2**20
# NumPy's own small blocks, and what a call to Python costs.
SLACK_BYTES = 2**14
LARGEST = 5
FREES = ("FREE", "MUNMAP")


class Seen(NamedTuple):
    """``peak_bytes`` of blocks that were allocated and freed within; ``kept_bytes`` of others.

    ``largest``: sizes of the largest blocks at the peak, in bytes.
    """

    peak_bytes: int
    kept_bytes: int
    largest: List[int]


class Instrument:
    """memray, from a folder of its own, which holds nothing that the framework could import.

    Or from where this Python has it, if ``folder`` is INSTALLED.
    ``problem`` says why it cannot be used; empty if it can.
    """

    def __init__(self, folder: Optional[str], problem: str = "") -> None:
        self.problem = problem
        self.source = ""
        if folder is None:
            self.problem = problem or "no instrument was given"
            return
        # Last, so that nothing in it hides what is installed. It stays: memray imports late.
        if folder != INSTALLED:
            sys.path.append(folder)
        try:
            memray = importlib.import_module("memray")
        except Exception as error:  # it is compiled for one Python and one libc
            self.problem = "memray cannot be imported: {}".format(error)
            return
        self._memray: Any = memray
        self.source = "memray {}".format(memray.__version__)
        self.problem = self._calibrate()

    def watch(self, work: Callable[[], None]) -> Seen:
        """Run ``work`` once."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "allocations")
            with self._memray.Tracker(path):
                work()
            reader = self._memray.FileReader(path)
            names = {int(kind): kind.name for kind in self._memray.AllocatorType}
            records = (
                (record.address, record.size, names[record.allocator] in FREES)
                for record in reader.get_allocation_records()
            )
            return account(records)

    def _calibrate(self) -> str:
        """What is wrong with it: it must find the peak of blocks of known size."""
        kept: List[np.ndarray] = []
        try:
            seen = self.watch(lambda: known_work(kept))
        except RuntimeError as error:  # this process is run under memray already
            return "memray cannot be used: {}".format(error)
        if abs(seen.peak_bytes - KNOWN_BYTES) > SLACK_BYTES or seen.kept_bytes < KEPT_BYTES:
            return "memray finds {} bytes where {} were allocated".format(
                seen.peak_bytes, KNOWN_BYTES
            )
        return ""


def known_work(kept: List[np.ndarray]) -> None:
    """Allocate and free blocks of KNOWN_BYTES; put one of KEPT_BYTES into ``kept`` meanwhile."""
    first = np.ones(KNOWN_BYTES // 2, np.uint8)
    kept.append(np.ones(KEPT_BYTES, np.uint8))
    second = np.ones(KNOWN_BYTES // 2, np.uint8)
    del first, second


def account(records: Iterable[Tuple[int, int, bool]]) -> Seen:
    """From ``(address, bytes, whether it is freed)`` in the order of time.

    What is freed and was never allocated here was there before.
    """
    live: Dict[int, Tuple[int, int]] = {}
    changes: List[Tuple[int, int]] = []
    for time, (address, size, freed) in enumerate(records):
        if not freed:
            live[address] = (time, size)
        elif address in live:
            born, size = live.pop(address)
            changes += [(born, size), (time, -size)]
    changes.sort()
    now = peak = at = 0
    for time, change in changes:
        now += change
        if now > peak:
            peak, at = now, time
    kept = sum(size for _, size in live.values())
    return Seen(peak, kept, _largest(changes, at))


def _largest(changes: List[Tuple[int, int]], until: int) -> List[int]:
    """Of the blocks that are there after the change at ``until``."""
    sizes: List[int] = []
    for time, change in changes:
        if time > until:
            break
        if change > 0:
            sizes.append(change)
        elif change < 0:  # a block of no bytes is none
            sizes.remove(-change)
    return sorted(sizes, reverse=True)[:LARGEST]
