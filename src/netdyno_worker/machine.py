"""What the machine did meanwhile, this process and all others together: counters that only grow.

They are read between blocks, never within one. A reading is a few ``pread`` of files that stay
open: 20 µs on 2 cores, half of it ``/proc/vmstat``. The kernel writes ``/proc/stat`` core by core
and interrupt by interrupt, so it costs more on large machines. What the system does not tell, as
all of it off Linux, is None.

What a reading is about are the cores that this process may use, which on a shared node are not
all. Ask for them before a framework binds its threads: one ``Machine`` for each trial, made first.
"""

from __future__ import annotations

import os
from typing import Any, Dict, List, NamedTuple, Optional, Set, Tuple

from netdyno_worker import clock
from netdyno_worker.nvml import Gpu

# Of the fields of proc_stat(5): user (which holds guest), nice, system, irq, softirq; and steal.
BUSY_FIELDS = (0, 1, 2, 5, 6)
STEAL_FIELD = 7


class Reading(NamedTuple):
    """At ``clock.now()`` = ``seconds``; times in seconds over all cores, since some beginning.

    ``energy_joules``: of the whole board of the GPU that works.
    """

    seconds: float
    own_busy_seconds: float
    machine_busy_seconds: Optional[float]
    steal_seconds: Optional[float]
    swapped_pages: Optional[int]
    throttles: Optional[int]
    energy_joules: Optional[float] = None

    def since(self, before: "Reading") -> Dict[str, Any]:
        """The differences, as the fields of a ``block`` event: see docs/event-protocol.md."""
        values = {
            name: None if now is None or then is None else round(now - then, 6)
            for name, now, then in zip(self._fields, self, before)
        }
        values["stretch_seconds"] = values.pop("seconds")
        return values


class Machine:
    """Args: where the kernel tells of itself, other folders are for tests; the GPU that works."""

    def __init__(
        self,
        proc: str = "/proc",
        sys_cpu: str = "/sys/devices/system/cpu",
        gpu: Optional[Gpu] = None,
    ) -> None:
        self._gpu = gpu
        self._proc = proc
        self._sys_cpu = sys_cpu
        self.usable = _usable_cores()
        self._stat = _open(os.path.join(proc, "stat"))
        self._vmstat = _open(os.path.join(proc, "vmstat"))
        self._throttles = [file for file in map(_open, self._throttle_counts()) if file is not None]
        self._tick = os.sysconf("SC_CLK_TCK")
        lines = _read(self._stat).splitlines()
        cores = [line for line in lines if line[:3] == b"cpu" and line[3:4].isdigit()]
        # Room for each core's line; the first, of all cores together, will do where all are usable.
        self._all_usable = len(cores) <= len(self.usable)
        self._stat_bytes = 256 if self._all_usable else 256 * (len(cores) + 1)

    def read(self, process_id: Optional[int] = None) -> Reading:
        """All counters now. ``process_id``: of a child that does the work, see ``clock.usage``."""
        busy, steal = self._processors()
        return Reading(
            clock.now(),
            clock.processor_seconds(process_id),
            busy,
            steal,
            self._swapped_pages(),
            self._throttled(),
            self._gpu.energy_joules() if self._gpu else None,
        )

    def facts(self) -> Dict[str, Any]:
        """What the readings are about, and the clock as it is now.

        ``mhz`` is the mean over the usable cores. It may take milliseconds: a few times a trial.
        """
        return {
            "cores": len(self.usable),
            "physical_cores": self._physical_cores(),
            "mhz": self._mhz(),
        }

    def close(self) -> None:
        for file in [self._stat, self._vmstat] + self._throttles:
            if file is not None:
                os.close(file)
        self._stat, self._vmstat, self._throttles = None, None, []

    def _processors(self) -> Tuple[Optional[float], Optional[float]]:
        """Busy and stolen seconds of the usable cores."""
        busy = steal = None
        for line in _read(self._stat, self._stat_bytes).splitlines():
            name, *fields = line.split() or [b""]
            if not name.startswith(b"cpu") or len(fields) <= STEAL_FIELD:
                break  # the cores' lines come first
            if self._all_usable or _number(name[3:]) in self.usable:
                busy = (busy or 0) + sum(int(fields[index]) for index in BUSY_FIELDS) / self._tick
                steal = (steal or 0) + int(fields[STEAL_FIELD]) / self._tick
            if self._all_usable:
                break
        return busy, steal

    def _swapped_pages(self) -> Optional[int]:
        text = _read(self._vmstat)
        read, written = (_number_after(text, name) for name in (b"\npswpin ", b"\npswpout "))
        return None if read is None or written is None else read + written

    def _throttled(self) -> Optional[int]:
        counts = [_number(_read(file, 64)) for file in self._throttles]
        return sum(count or 0 for count in counts) if counts else None

    def _throttle_counts(self) -> List[str]:
        """One file for each physical core and each package: siblings tell the same count."""
        found: Dict[Tuple[str, ...], str] = {}
        for core in sorted(self.usable):
            folder = "{}/cpu{}".format(self._sys_cpu, core)
            package = _text(folder + "/topology/physical_package_id") or str(core)
            place = _text(folder + "/topology/core_id") or str(core)
            counts = folder + "/thermal_throttle/{}_throttle_count"
            found.setdefault((package, place), counts.format("core"))
            found.setdefault((package,), counts.format("package"))
        return list(found.values())

    def _physical_cores(self) -> Optional[int]:
        siblings = [
            _text("{}/cpu{}/topology/thread_siblings_list".format(self._sys_cpu, core))
            for core in self.usable
        ]
        return len(set(siblings)) if siblings and all(siblings) else None

    def _mhz(self) -> Optional[float]:
        files = [
            "{}/cpu{}/cpufreq/scaling_cur_freq".format(self._sys_cpu, core) for core in self.usable
        ]
        kilohertz = [int(text) for text in map(_text, files) if text.isdigit()]
        megahertz = [value / 1000 for value in kilohertz] or self._mhz_of_cpuinfo()
        return round(sum(megahertz) / len(megahertz), 1) if megahertz else None

    def _mhz_of_cpuinfo(self) -> List[float]:
        found, core = [], None
        for line in _text(os.path.join(self._proc, "cpuinfo")).splitlines():
            key, _, value = (word.strip() for word in line.partition(":"))
            if key == "processor":
                core = _number(value.encode())
            elif key == "cpu MHz" and core in self.usable:
                found.append(float(value))
        return found


def _usable_cores() -> Set[int]:
    if hasattr(os, "sched_getaffinity"):
        return set(os.sched_getaffinity(0))
    return set(range(os.cpu_count() or 1))


def _open(path: str) -> Optional[int]:
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None


def _read(file: Optional[int], size: int = 1 << 16) -> bytes:
    """From its beginning, which makes the kernel write it anew."""
    if file is None:
        return b""
    try:
        return os.pread(file, size, 0)
    except OSError:
        return b""


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""


def _number(text: bytes) -> Optional[int]:
    text = text.strip()
    return int(text) if text.isdigit() else None


def _number_after(text: bytes, name: bytes) -> Optional[int]:
    start = text.find(name)
    return None if start < 0 else _number(text[start + len(name) :].partition(b"\n")[0])
