"""The driver's counters, from a stand-in for it: this machine need not have a GPU."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest

from netdyno_worker import nvml
from netdyno_worker.machine import Machine


class Driver:
    """Stands for libcuda and libnvidia-ml. ``fails``: the names of calls that return an error."""

    def __init__(self, fails: tuple[str, ...] = ()) -> None:
        self.fails = fails
        self.used = 1000
        self.millijoules = 5000
        self.bus = b""

    def __getattr__(self, name: str) -> Any:
        answers = {
            "cuDeviceGetPCIBusId": self._place,
            "nvmlDeviceGetHandleByPciBusId_v2": self._handle,
            "nvmlDeviceGetMemoryInfo": self._memory,
            "nvmlDeviceGetTotalEnergyConsumption": self._energy,
        }
        return answers.get(name, lambda *words: 999 if name in self.fails else 0)

    def _place(self, text: Any, length: int, number: Any) -> int:
        text.value = b"0000:1b:00.0"
        return 0

    def _handle(self, bus: Any, handle: Any) -> int:
        self.bus = bus.value
        return 0

    def _memory(self, handle: Any, found: Any) -> int:
        ctypes.cast(found, ctypes.POINTER(nvml._Memory)).contents.used = self.used
        return 0

    def _energy(self, handle: Any, found: Any) -> int:
        ctypes.cast(found, ctypes.POINTER(ctypes.c_ulonglong)).contents.value = self.millijoules
        return 0


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    found = Driver()
    monkeypatch.setattr(ctypes, "CDLL", lambda name: found)
    return found


def test_what_is_taken_since_the_beginning(driver: Driver) -> None:
    gpu = nvml.Gpu("cuda:0")
    driver.used = 4000
    assert gpu.taken_bytes() == 3000
    assert driver.bus == b"0000:1b:00.0"


def test_energy_of_a_stretch(driver: Driver) -> None:
    machine = Machine(gpu=nvml.Gpu("cuda:0"))
    before = machine.read()
    driver.millijoules = 7500
    assert machine.read().since(before)["energy_joules"] == 2.5


def test_a_processor_has_neither() -> None:
    gpu = nvml.Gpu("cpu")
    assert gpu.taken_bytes() is None
    assert gpu.energy_joules() is None


@pytest.mark.parametrize("name", ["cuInit", "cuDeviceGet", "nvmlInit_v2"])
def test_a_driver_that_refuses(driver: Driver, name: str) -> None:
    driver.fails = (name,)
    assert nvml.Gpu("cuda:0").taken_bytes() is None


def test_no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> Any:
        raise OSError(name)

    monkeypatch.setattr(ctypes, "CDLL", absent)
    assert nvml.Gpu("cuda:0").energy_joules() is None
