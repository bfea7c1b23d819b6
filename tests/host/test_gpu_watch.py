"""Watching a GPU, through a module that answers as NVML does."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from netdyno.host import gpu_watch
from netdyno.host.gpu_watch import other_processes, watching
from netdyno.stats.disturbance import GPU_REASONS


class Nvml:
    """``pynvml`` for a few GPUs; a handle is the GPU's number on the PCI bus."""

    NVML_CLOCK_SM = 1
    NVML_TEMPERATURE_GPU = 0

    def __init__(self, models: tuple[str, ...] = ("H200",), **answers: Any) -> None:
        self.models = models
        self.answers = {"reasons": 0, "pids": [], "power": 350_500, **answers}
        self.shut_down = 0
        self.asked: list[int] = []

    def nvmlShutdown(self) -> None:  # noqa: N802 - NVML's names, here and below
        self.shut_down += 1

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return len(self.models)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802
        return index

    def nvmlDeviceGetName(self, handle: int) -> str:  # noqa: N802
        return self.models[handle]

    def nvmlDeviceGetUUID(self, handle: int) -> str:  # noqa: N802
        return f"GPU-{'abcd'[handle]}123-4567"

    def nvmlDeviceGetClockInfo(self, handle: int, kind: int) -> int:  # noqa: N802
        assert kind == self.NVML_CLOCK_SM
        self.asked.append(handle)
        return 1980

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle: int) -> Any:  # noqa: N802
        return self._answer("reasons")

    def nvmlDeviceGetPowerUsage(self, handle: int) -> Any:  # noqa: N802
        return self._answer("power")

    def nvmlDeviceGetTemperature(self, handle: int, sensor: int) -> int:  # noqa: N802
        return 61

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> Any:  # noqa: N802
        return SimpleNamespace(total=2**37, used=2**30, free=2**37 - 2**30)

    def nvmlDeviceGetComputeRunningProcesses(self, handle: int) -> Any:  # noqa: N802
        return [SimpleNamespace(pid=pid, usedGpuMemory=None) for pid in self._answer("pids")]

    def _answer(self, name: str) -> Any:
        answer = self.answers[name]
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def trial() -> Iterator[subprocess.Popen[bytes]]:
    """A process in a session of its own, with a child, as a trial is."""
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'input()'])"
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    yield process
    process.kill()
    process.communicate()


def sampled(library: Nvml, device: str = "cuda:0", group: int | None = None) -> dict[str, Any]:
    with watching(device, group, lambda: library) as watch:
        assert watch
        watch.sample()
    (sample,) = watch.samples
    assert library.shut_down == 1
    return sample


def test_a_sample() -> None:
    before = time.perf_counter()
    sample = sampled(Nvml(reasons=0x1 | 0x4 | 0x40))
    assert before - 1e-6 <= sample.pop("at") <= time.perf_counter() + 1e-6
    assert sample == {
        "event": "gpu",
        "sm_mhz": 1980,
        "reasons": ["gpu_idle", "sw_power_cap", "hw_thermal_slowdown"],
        "power_watts": 350.5,
        "temperature_celsius": 61,
        "memory_used_bytes": 2**30,
        "other_processes": 0,
    }


def test_the_bits_are_those_of_the_library() -> None:
    import pynvml

    told = {
        name.removeprefix("nvmlClocksEventReason").lower(): getattr(pynvml, name)
        for name in dir(pynvml)
        if name.startswith("nvmlClocksEventReason")
    }
    for bit, name in gpu_watch.REASONS.items():
        assert told[name.replace("_", "")] == bit
    assert set(GPU_REASONS) < set(gpu_watch.REASONS.values())


def test_what_the_driver_refuses_is_none() -> None:
    refused = RuntimeError("Not Supported")
    sample = sampled(Nvml(reasons=refused, power=refused, pids=refused))
    assert sample["reasons"] is sample["power_watts"] is sample["other_processes"] is None
    assert sample["sm_mhz"] == 1980


def test_an_older_library_knows_the_reasons_by_another_name() -> None:
    library = Nvml()
    old = SimpleNamespace(
        **{name: getattr(library, name) for name in dir(library) if name.lower().startswith("nvml")}
    )
    del old.nvmlDeviceGetCurrentClocksEventReasons
    old.nvmlDeviceGetCurrentClocksThrottleReasons = lambda handle: 0x80
    with watching("cuda:0", None, lambda: old) as watch:
        assert watch
        watch.sample()
    assert watch.samples[0]["reasons"] == ["hw_power_brake_slowdown"]


def test_processes_of_the_trial_are_no_others(trial: subprocess.Popen[bytes]) -> None:
    pids = [trial.pid, os.getpid()]
    assert sampled(Nvml(pids=pids), group=trial.pid)["other_processes"] == 1
    assert sampled(Nvml(pids=[trial.pid]), group=trial.pid)["other_processes"] == 0
    assert sampled(Nvml(pids=[os.getpid()]), group=trial.pid)["other_processes"] == 1


def test_a_container_that_sees_the_hosts_numbers(trial: subprocess.Popen[bytes]) -> None:
    """One number that nobody here knows is the trial's own; a second one is not."""
    unknown = 2**22 + 1
    assert sampled(Nvml(pids=[unknown]), group=trial.pid)["other_processes"] == 0
    assert sampled(Nvml(pids=[unknown, unknown + 1]), group=trial.pid)["other_processes"] == 1
    assert sampled(Nvml(pids=[trial.pid, unknown]), group=trial.pid)["other_processes"] == 1


def test_before_a_run_all_processes_are_others() -> None:
    assert other_processes("cuda:0", lambda: Nvml(pids=[1, 2**22 + 1])) == 2
    assert other_processes("cuda:0", lambda: Nvml(pids=RuntimeError("no"))) == 0
    assert other_processes("cuda:0", lambda: None) == 0


@pytest.mark.parametrize(
    ("device", "visible", "expected"),
    [
        ("cuda:0", None, 0),
        ("cuda:2", None, 2),
        ("cuda:0", "2,1", 2),
        ("cuda:1", " 2 , 1 ", 1),
        ("cuda:0", "GPU-c123-4567", 2),
        ("cuda:1", "0,gpu-b", 1),
        ("cuda:1", "0", None),
        ("cuda:0", "", None),
        ("cuda:0", "GPU-", None),  # all of them begin so
        ("cuda:0", "MIG-1", None),
        ("cuda:3", None, None),
        ("cuda:0", "7", None),
    ],
)
def test_the_gpu_that_a_framework_calls_so(
    monkeypatch: pytest.MonkeyPatch, device: str, visible: str | None, expected: int | None
) -> None:
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    library = Nvml(("H200",) * 3)
    with watching(device, None, lambda: library) as watch:
        if watch:
            watch.sample()
    assert library.asked == ([] if expected is None else [expected])
    assert library.shut_down == 1


def test_gpus_of_several_models_are_told_apart_only_in_the_order_of_the_bus(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    library = Nvml(("T4", "H200"))
    with watching("cuda:0", None, lambda: library) as watch:
        assert watch is None
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    assert sampled(Nvml(("T4", "H200")), "cuda:1")["sm_mhz"] == 1980


def test_on_cpu_the_library_is_not_even_imported() -> None:
    def load() -> Any:
        raise AssertionError("asked for")

    with watching("cpu", 1, load) as watch:
        assert watch is None


def test_no_driver_is_no_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    import pynvml

    def fail() -> None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    monkeypatch.setattr(pynvml, "nvmlInit", fail)
    with watching("cuda:0", 1) as watch:
        assert watch is None
