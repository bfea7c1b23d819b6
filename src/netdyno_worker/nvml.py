"""What a GPU's driver counts, asked through NVML: memory that is taken, energy that was used."""

from __future__ import annotations

import ctypes
from typing import Any, Optional

MILLIJOULE = 1e-3


class _Memory(ctypes.Structure):
    """``nvmlMemory_t`` of nvml.h."""

    _fields_ = [(name, ctypes.c_ulonglong) for name in ("total", "free", "used")]


class Gpu:
    """``cuda:N``, whoever uses it. A CPU, or a GPU whose driver does not tell, knows nothing.

    Make it before the framework opens the device: it holds no context of CUDA.
    """

    def __init__(self, device: str) -> None:
        self._nvml: Any = None
        self._handle = ctypes.c_void_p()
        if device.startswith("cuda"):
            try:
                self._find(int(device.partition(":")[2] or 0))
            except (OSError, AttributeError, RuntimeError):
                self._nvml = None
        self._used_before = self._used_bytes()

    def _find(self, index: int) -> None:
        driver, nvml = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL("libnvidia-ml.so.1")
        number, bus = ctypes.c_int(), ctypes.create_string_buffer(32)
        # CUDA's numbering is its own, and variables change it; the place on the bus is NVML's too.
        _check(driver.cuInit(0))
        _check(driver.cuDeviceGet(ctypes.byref(number), index))
        _check(driver.cuDeviceGetPCIBusId(bus, len(bus), number))
        _check(nvml.nvmlInit_v2())
        _check(nvml.nvmlDeviceGetHandleByPciBusId_v2(bus, ctypes.byref(self._handle)))
        self._nvml = nvml

    def _used_bytes(self) -> Optional[int]:
        if self._nvml is None:
            return None
        found = _Memory()
        if self._nvml.nvmlDeviceGetMemoryInfo(self._handle, ctypes.byref(found)):
            return None
        return int(found.used)

    def taken_bytes(self) -> Optional[int]:
        """Since this object was made: context, libraries, arrays and caches.

        Nobody else must take or free memory there meanwhile.
        """
        used = self._used_bytes()
        return None if used is None or self._used_before is None else used - self._used_before

    def energy_joules(self) -> Optional[float]:
        """Of the whole board, since its driver was loaded; it counts some ten times a second."""
        if self._nvml is None:
            return None
        millijoules = ctypes.c_ulonglong()
        if self._nvml.nvmlDeviceGetTotalEnergyConsumption(self._handle, ctypes.byref(millijoules)):
            return None
        return millijoules.value * MILLIJOULE


def _check(code: int) -> None:
    if code:
        raise RuntimeError("code {}".format(code))
