"""What a GPU does while a trial measures on it: clock, throttling, power, who else computes there.

Asked of the driver through NVML (nvidia-ml-py), which is imported only for a cell on a GPU. A GPU
that cannot be asked, or told apart from the others, is not watched; no trial fails for that.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

__all__ = ["GpuWatch", "nvml", "other_processes", "watching"]

# nvmlClocksEventReason…, which NVML called nvmlClocksThrottleReason… before 2023, as bits: stored
# by these names. Which of them disturb is decided when they are read: stats/disturbance.py.
REASONS = {
    0x001: "gpu_idle",
    0x002: "applications_clocks_setting",
    0x004: "sw_power_cap",
    0x008: "hw_slowdown",
    0x010: "sync_boost",
    0x020: "sw_thermal_slowdown",
    0x040: "hw_thermal_slowdown",
    0x080: "hw_power_brake_slowdown",
    0x100: "display_clock_setting",
}


class GpuWatch:
    """Samples of one GPU, in memory until the trial is over: writing them would disturb it.

    Args:
        library: the module ``pynvml``, initialized, or one like it.
        handle: NVML's, of the GPU.
        group: the session of the trial's processes, which are not *others*; None if none runs.
    """

    def __init__(self, library: Any, handle: Any, group: int | None) -> None:
        self._nvml = library
        self._handle = handle
        self._group = group
        self.samples: list[dict[str, Any]] = []

    def sample(self) -> None:
        """Take one: a ``gpu`` event of docs/event-protocol.md; None for what cannot be told."""
        ask, handle = self._nvml, self._handle
        reasons = _asked(_reasons_call(ask), handle)
        milliwatts = _asked(ask.nvmlDeviceGetPowerUsage, handle)
        memory = _asked(ask.nvmlDeviceGetMemoryInfo, handle)
        # On Linux time.perf_counter() is the same clock in every process.
        self.samples.append(
            {
                "event": "gpu",
                "at": round(time.perf_counter(), 6),
                "sm_mhz": _asked(ask.nvmlDeviceGetClockInfo, handle, ask.NVML_CLOCK_SM),
                "reasons": None if reasons is None else _names(reasons),
                "power_watts": None if milliwatts is None else milliwatts / 1000,
                "temperature_celsius": _asked(
                    ask.nvmlDeviceGetTemperature, handle, ask.NVML_TEMPERATURE_GPU
                ),
                "memory_used_bytes": None if memory is None else int(memory.used),
                "other_processes": self.other_processes(),
            }
        )

    def other_processes(self) -> int | None:
        """Processes that compute on the GPU and are not of the trial.

        In a container NVML may number processes as the host does. Then the trial's own cannot be
        told from the others, and one that nobody here knows is taken for it.
        """
        found = _asked(self._nvml.nvmlDeviceGetComputeRunningProcesses, self._handle)
        if found is None:
            return None
        if self._group is None:
            return len(found)
        sessions = [_session(process.pid) for process in found]
        if self._group in sessions:
            return sum(session != self._group for session in sessions)
        return len(sessions) - (None in sessions)


@contextmanager
def watching(
    device: str, group: int | None, load: Callable[[], Any] | None = None
) -> Iterator[GpuWatch | None]:
    """A ``GpuWatch`` of ``device`` (``cuda:N``); None for ``cpu`` and where there is no NVML."""
    library = None if device == "cpu" else (load or nvml)()
    if library is None:
        yield None
        return
    try:
        handle = _handle(library, device, os.environ)
        yield None if handle is None else GpuWatch(library, handle, group)
    finally:
        _asked(library.nvmlShutdown)


def other_processes(device: str, load: Callable[[], Any] | None = None) -> int:
    """How many processes compute on ``device`` while no trial does; 0 if nobody can tell."""
    with watching(device, None, load) as watch:
        return (watch.other_processes() or 0) if watch else 0


def nvml() -> Any:
    """The module ``pynvml``, initialized; None where there is no driver."""
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception:  # no library, no driver, a driver of another version: NVML's own errors
        return None
    return pynvml


def _handle(library: Any, device: str, environ: Mapping[str, str]) -> Any:
    """Of the GPU that a framework calls ``cuda:N``; None if that cannot be known.

    CUDA_VISIBLE_DEVICES picks and orders by number or by UUID. NVML numbers GPUs by their place on
    the PCI bus; CUDA does so too if CUDA_DEVICE_ORDER says so, else it puts the fastest first,
    which is the same order where all are of one model.
    """
    number = int(device.partition(":")[2] or 0)
    visible = environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        words = [word.strip() for word in visible.split(",")]
        if number >= len(words) or not words[number]:
            return None
        if not words[number].isdigit():
            return _by_uuid(library, words[number])
        number = int(words[number])
    count = _asked(library.nvmlDeviceGetCount) or 0
    handles = [_asked(library.nvmlDeviceGetHandleByIndex, index) for index in range(count)]
    if environ.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID":
        models = {str(_asked(library.nvmlDeviceGetName, handle)) for handle in handles}
        if len(models) > 1:
            return None
    return handles[number] if number < count else None


def _by_uuid(library: Any, word: str) -> Any:
    """CUDA takes the beginning of a UUID where only one GPU's begins so."""
    found = []
    for index in range(_asked(library.nvmlDeviceGetCount) or 0):
        handle = _asked(library.nvmlDeviceGetHandleByIndex, index)
        uuid = _asked(library.nvmlDeviceGetUUID, handle)
        text = uuid.decode() if isinstance(uuid, bytes) else str(uuid)
        if text.lower().startswith(word.lower()):
            found.append(handle)
    return found[0] if len(found) == 1 else None


def _reasons_call(library: Any) -> Any:
    return getattr(
        library,
        "nvmlDeviceGetCurrentClocksEventReasons",
        getattr(library, "nvmlDeviceGetCurrentClocksThrottleReasons", None),
    )


def _asked(call: Any, *words: Any) -> Any:
    """The answer, or None where the driver has none: many GPUs lack some of them."""
    with contextlib.suppress(Exception):  # NVMLError has a class for each code
        return call(*words)
    return None


def _names(reasons: int) -> list[str]:
    return [name for bit, name in REASONS.items() if reasons & bit]


def _session(process_id: int) -> int | None:
    """None for a process that is not there, as this container sees it."""
    try:
        return os.getsid(process_id)
    except OSError:
        return None
