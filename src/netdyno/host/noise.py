"""A look at the machine before a run: what would disturb it, and what to do about that."""

from __future__ import annotations

import contextlib
import os
import time
import warnings
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import psutil

from netdyno.host.cpu import cpu
from netdyno.host.gpu_watch import other_processes
from netdyno.redact import printable

__all__ = ["Look", "look"]

LOOK_SECONDS = 0.3
# Cores in use by others, above which it is said. In a short look the counters err by some 0.1.
BUSY_CORES = 0.2
# A program is named if it uses this many cores; so many are named.
NAMED_CORES = 0.05
NAMED = 3
# Governors under which the clock follows the load: the beginning of each block may be slow.
SLOW_GOVERNORS = ("powersave", "ondemand", "conservative")
# More of the swap than this in use while little memory is free: allocations may wait for a disk.
SWAP_PERCENT = 50.0
MEMORY_PERCENT = 90.0


@dataclass(frozen=True)
class Look:
    """``warnings`` are for the person's terminal alone: they name programs.

    ``conditions`` are what a run folder may keep: ``busy_cores`` used by others of ``cores``,
    ``governor``, ``mhz``, ``load`` (1, 5, 15 minutes), ``swap_percent``, ``on_battery``; None for
    what the system does not tell.
    """

    warnings: tuple[str, ...] = ()
    conditions: dict[str, Any] = field(default_factory=dict)


def look(devices: Iterable[str] = (), seconds: float = LOOK_SECONDS) -> Look:
    """Watch for ``seconds``, and ask the rest. ``devices``: those of the cells to be measured."""
    busy_cores, programs = _busy(seconds)
    processor = cpu()
    conditions = {
        "busy_cores": round(busy_cores, 2),
        "cores": len(_usable_cores()),
        "governor": processor.governor,
        "mhz": _mhz(),
        "load": [round(value, 2) for value in os.getloadavg()],
        "swap_percent": _swap_percent(),
        "on_battery": _on_battery(),
    }
    return Look(tuple(_warnings(conditions, programs, devices)), conditions)


def _warnings(
    conditions: dict[str, Any], programs: list[tuple[str, float]], devices: Iterable[str]
) -> list[str]:
    found = []
    busy = conditions["busy_cores"]
    if busy > BUSY_CORES:
        share = busy / conditions["cores"]
        named = ", ".join(f"{name} {used:.1f} cores" for name, used in programs)
        found.append(
            f"the machine is {share:.0%} busy with other things"
            f"{f' ({named})' if named else ''}: end them, or expect samples to be left out"
        )
    if conditions["governor"] in SLOW_GOVERNORS:
        found.append(
            f"the processor's governor is {conditions['governor']}, so its clock changes with the"
            " load: set it with `cpupower frequency-set -g performance`"
        )
    if conditions["on_battery"]:
        found.append("the machine runs on battery, which lowers its clock: plug it in")
    memory_percent = psutil.virtual_memory().percent
    if (conditions["swap_percent"] or 0) > SWAP_PERCENT and memory_percent > MEMORY_PERCENT:
        found.append(
            f"{conditions['swap_percent']:.0f} % of the swap and {memory_percent:.0f} % of the"
            " memory are in use: end programs that use much, or measure smaller batches"
        )
    found += [
        f"other processes compute on {device} ({others} of them): wait for their end, or choose"
        " another GPU (`nvidia-smi` lists them)"
        for device in dict.fromkeys(devices)
        if (others := other_processes(device))
    ]
    return found


def _busy(seconds: float) -> tuple[float, list[tuple[str, float]]]:
    """Cores in use by others on average, and by which programs, most first."""
    start, own, before = time.perf_counter(), time.process_time(), _busy_seconds()
    then = _by_process()
    time.sleep(seconds)
    others = (_busy_seconds() - before) - (time.process_time() - own)
    now = _by_process()
    elapsed = time.perf_counter() - start
    cores: dict[str, float] = defaultdict(float)
    for process, used in now.items():
        cores[process[1]] += (used - then.get(process, used)) / elapsed
    worst = sorted(cores.items(), key=lambda program: program[1], reverse=True)[:NAMED]
    return max(0.0, others / elapsed), [item for item in worst if item[1] >= NAMED_CORES]


def _busy_seconds() -> float:
    """Of the cores that this process may use, all of them together."""
    times = psutil.cpu_times(percpu=True)
    usable = _usable_cores()
    fields = ("user", "nice", "system", "irq", "softirq")  # psutil's user holds guest
    return sum(
        getattr(core, name, 0.0)
        for index, core in enumerate(times)
        if index in usable
        for name in fields
    )


def _usable_cores() -> set[int]:
    if hasattr(os, "sched_getaffinity"):
        return set(os.sched_getaffinity(0))
    return set(range(os.cpu_count() or 1))


def _by_process() -> dict[tuple[int, str], float]:
    """Processor seconds of every other process that may be asked."""
    found = {}
    for process in psutil.process_iter(["name", "cpu_times"]):
        times = process.info["cpu_times"]
        if times is not None and process.pid != os.getpid():
            name = printable(process.info["name"] or "")
            found[process.pid, name] = times.user + times.system
    return found


def _mhz() -> float | None:
    with contextlib.suppress(OSError, RuntimeError, NotImplementedError, AttributeError):
        clock = psutil.cpu_freq()
        return round(clock.current, 1) if clock else None
    return None


def _swap_percent() -> float | None:
    with contextlib.suppress(OSError, RuntimeError), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # psutil warns where a container hides the counters
        return float(psutil.swap_memory().percent)
    return None


def _on_battery() -> bool | None:
    with contextlib.suppress(OSError, RuntimeError, AttributeError):
        battery = psutil.sensors_battery()
        return (
            None if battery is None or battery.power_plugged is None else not battery.power_plugged
        )
    return None
