"""Which blocks were measured while something else had its hand in the machine.

The counters of ``/proc/stat`` move in ticks of 10 ms, so no block of 2 ms can be judged on its
own: consecutive blocks of one phase and kind form *windows* of half a second at least, and all
blocks of a disturbed window are marked. GPU samples have a time of their own, so they mark the
blocks around them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from netdyno.stats.block import Block, GpuSample

__all__ = ["Disturbance", "Room", "disturbances"]

WINDOW_SECONDS = 0.5
# Where a phase is over sooner, its window is; below ten ticks the counters tell nothing of it.
JUDGED_SECONDS = 0.1

# Cores that others may use without being noticed: 4 % of a machine of two cores was calm where
# frameworks were compared. OpenMP waits for its slowest thread, so what counts is not the share of
# the machine but the time for which any thread was kept off its core: with all cores in use, 0.08
# cores cost up to 8 %, and one whole core costs OpenMP frameworks a factor of 5 to 10.
CALM_CORES = 0.08
# Of the cores that the trial leaves free: others are put there, but share memory and turbo clock
# with it, and the more of them are taken, the less often the scheduler finds a free one in time.
SPARE_SHARE = 0.5
# How many standard deviations of the counters' own error are allowed beside that.
DEVIATIONS = 2.0
# Of the counters of /proc/stat; the kernel charges whole ticks to whoever runs when one ends.
TICK_SECONDS = 0.01
# A page read back takes some 0.1 ms from an SSD: a hundred in a second cost 1 %.
SWAPPED_PAGES_PER_SECOND = 100.0
# netdyno looks at the GPU twice a second; a sample stands for the time up to its neighbours.
GPU_REACH_SECONDS = 0.5

# A power cap holds whenever a card computes at its limit: an H200 at 630 of its 700 W lost 15 of
# 1980 MHz to it. It disturbs where the clock is further below the highest of the trial than this.
POWER_CAP_SHARE = 0.03
# NVML's reasons for a lower clock that are not the setting that was asked for, nor idleness.
GPU_REASONS = {
    "hw_slowdown": "GPU throttled (hardware slowdown)",
    "hw_thermal_slowdown": "GPU throttled (thermal, hardware)",
    "hw_power_brake_slowdown": "GPU throttled (power brake)",
    "sw_thermal_slowdown": "GPU throttled (thermal, software)",
    "sw_power_cap": "GPU throttled (power cap)",
}


@dataclass(frozen=True)
class Disturbance:
    """``cause`` is one of a few fixed words, to be counted; ``detail`` says how much."""

    cause: str
    detail: str = ""


@dataclass(frozen=True)
class Room:
    """``cores`` that the trial could use, and how many of them, on average, it left ``spare``.

    Hardware threads of one core are no spare: what runs on one slows down the other.
    """

    cores: int | None = None
    spare: float = 0.0


def disturbances(
    blocks: Sequence[Block], gpu: Sequence[GpuSample] = (), room: Room | None = None
) -> list[tuple[Disturbance, ...]]:
    """For each block, what disturbed it; what was not recorded disturbs nothing."""
    found: list[tuple[Disturbance, ...]] = [()] * len(blocks)
    fastest = max((sample.sm_mhz or 0.0 for sample in gpu), default=0.0)
    for window in _windows(blocks):
        marks = _of_window([blocks[index] for index in window], room or Room())
        for index in window:
            found[index] = marks + _of_gpu(blocks[index], gpu, fastest)
    return found


def _windows(blocks: Sequence[Block]) -> list[list[int]]:
    """Indices of blocks that are judged together; what is left at the end joins the last."""
    windows: list[list[int]] = []
    for _, group in groupby(range(len(blocks)), lambda i: (blocks[i].phase, blocks[i].kind)):
        of_group: list[list[int]] = [[]]
        seconds = 0.0
        for index in group:
            if seconds >= WINDOW_SECONDS:
                of_group.append([])
                seconds = 0.0
            of_group[-1].append(index)
            seconds += blocks[index].stretch_seconds or 0.0
        if seconds < WINDOW_SECONDS and len(of_group) > 1:
            rest = of_group.pop()
            of_group[-1] += rest
        windows += of_group
    return windows


def _of_window(blocks: Sequence[Block], room: Room) -> tuple[Disturbance, ...]:
    seconds = _total(blocks, "stretch_seconds")
    if seconds is None or seconds < JUDGED_SECONDS:
        return ()
    marks = []
    busy, own = _total(blocks, "machine_busy_seconds"), _total(blocks, "own_busy_seconds")
    if busy is not None and own is not None:
        foreign = (busy - own) / seconds
        allowed = CALM_CORES + SPARE_SHARE * room.spare
        if foreign > allowed + DEVIATIONS * _error(own / seconds, room.cores, seconds):
            detail = f"other programs used {foreign:.2f} cores"
            marks.append(Disturbance("other programs used the processor", detail))
    stolen = (_total(blocks, "steal_seconds") or 0.0) / seconds
    if stolen > CALM_CORES + DEVIATIONS * _rounding(seconds):
        marks.append(
            Disturbance(
                "the hypervisor took processor time (steal)",
                f"the hypervisor took {stolen:.2f} cores",
            )
        )
    pages = (_total(blocks, "swapped_pages") or 0.0) / seconds
    if pages > SWAPPED_PAGES_PER_SECOND:
        marks.append(Disturbance("swapping", f"{pages:.0f} pages a second were swapped"))
    if _total(blocks, "throttles"):
        marks.append(Disturbance("processor throttled (thermal)"))
    return tuple(marks)


def _of_gpu(block: Block, samples: Sequence[GpuSample], fastest: float) -> tuple[Disturbance, ...]:
    if block.start is None:
        return ()
    first, last = block.start - GPU_REACH_SECONDS, block.start + block.seconds + GPU_REACH_SECONDS
    near = [sample for sample in samples if first <= sample.at <= last]
    reasons = {
        reason
        for sample in near
        for reason in sample.reasons
        if reason != "sw_power_cap" or (sample.sm_mhz or 0.0) <= fastest * (1 - POWER_CAP_SHARE)
    }
    if reasons & {"hw_thermal_slowdown", "hw_power_brake_slowdown"}:
        reasons.discard("hw_slowdown")  # NVML tells it along with its cause
    marks = [Disturbance(words) for reason, words in GPU_REASONS.items() if reason in reasons]
    others = max((sample.other_processes or 0 for sample in near), default=0)
    if others:
        marks.append(Disturbance("another process on the GPU", f"{others} others on the GPU"))
    return tuple(marks)


def _error(own_cores: float, cores: int | None, seconds: float) -> float:
    """Standard deviation, in cores, of what ``/proc/stat`` tells of a window.

    A core that is busy for a share p of the time is found so by a tick with probability p; one
    that is always busy, or never, is told without error.
    """
    if cores is None:
        return _rounding(seconds)
    own_cores = min(max(own_cores, 0.0), cores)
    sampled = own_cores * (1 - own_cores / cores) / (seconds / TICK_SECONDS)
    return math.hypot(math.sqrt(sampled), _rounding(seconds))


def _rounding(seconds: float) -> float:
    """Of a difference of whole ticks, of about three fields that move (user, system, softirq)."""
    return TICK_SECONDS * math.sqrt(3 / 6) / seconds


def _total(blocks: Sequence[Block], name: str) -> float | None:
    """None if any block lacks it."""
    values = [getattr(block, name) for block in blocks]
    return None if any(value is None for value in values) else sum(values)
