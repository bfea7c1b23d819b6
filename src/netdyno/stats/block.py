"""What was recorded of a block and, beside it, of the GPU."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Block", "GpuSample"]


@dataclass(frozen=True)
class Block:
    """``kind`` is ``first``, ``warmup`` or ``sample``; ``seconds`` is for all ``iterations``.

    ``start`` is on a monotonic clock that all processes of the machine share. The fields after it
    are about the block's *stretch*, from the end of the block before it (or the beginning of the
    phase) to its own end, and about the cores that the trial could use; ``own_busy_seconds`` is
    the processor time of the trial itself, ``energy_joules`` what the GPU's board used.
    ``device_seconds``: the block by the device's own events. ``launch_seconds``: until all its work
    had been started, which a GPU may do later. None: older runs, and systems that do not tell.
    """

    phase: str
    kind: str
    iterations: int
    seconds: float
    user_seconds: float
    system_seconds: float
    minor_faults: int
    major_faults: int
    start: float | None = None
    stretch_seconds: float | None = None
    own_busy_seconds: float | None = None
    machine_busy_seconds: float | None = None
    steal_seconds: float | None = None
    swapped_pages: float | None = None
    throttles: float | None = None
    energy_joules: float | None = None
    device_seconds: float | None = None
    launch_seconds: float | None = None

    @property
    def seconds_per_iteration(self) -> float:
        return self.seconds / self.iterations


@dataclass(frozen=True)
class GpuSample:
    """The GPU of a trial at ``at`` seconds of the clock of ``Block.start``.

    ``reasons``: why its clock is not higher, by NVML's names (see host/gpu_watch.py).
    ``other_processes``: that compute on it and are not of the trial.
    """

    at: float
    reasons: tuple[str, ...] = ()
    other_processes: int | None = None
    sm_mhz: float | None = None
    power_watts: float | None = None
    temperature_celsius: float | None = None
    memory_used_bytes: float | None = None
