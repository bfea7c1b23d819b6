"""The GPU as the process that computes sees it."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import pytest

from netdyno_worker import device, libraries


class Driver:
    """Stands for libcuda: a Tesla V100 and an H200."""

    GPUS = ((b"Tesla V100-SXM2-16GB", 7, 0), (b"NVIDIA H200", 9, 0))

    def cuDeviceGet(self, number: Any, index: int) -> int:  # noqa: N802 - CUDA's own name
        number._obj.value = 100 + index
        return 0 if index < len(self.GPUS) else 101  # CUDA_ERROR_INVALID_DEVICE

    def cuDeviceGetName(self, name: Any, size: int, number: Any) -> int:  # noqa: N802
        name.value = self.GPUS[number.value - 100][0]
        return 0 if len(name.value) < size else 1

    def cuDeviceGetAttribute(self, value: Any, attribute: int, number: Any) -> int:  # noqa: N802
        value._obj.value = self.GPUS[number.value - 100][{75: 1, 76: 2}[attribute]]
        return 0


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    maps = tmp_path / "maps"
    maps.write_text("7f00-7f01 r-xp 00000000 fe:00 12 /usr/lib/libcuda.so.580.95.05\n")
    monkeypatch.setattr(libraries, "MAPS", str(maps))

    def opened(path: str) -> Driver:
        assert path == "/usr/lib/libcuda.so.580.95.05"
        return Driver()

    monkeypatch.setattr(ctypes, "CDLL", opened)


@pytest.mark.usefixtures("driver")
@pytest.mark.parametrize(
    ("name", "model", "capability", "has_tf32"),
    [
        ("cuda:0", "Tesla V100-SXM2-16GB", "7.0", False),
        ("cuda", "Tesla V100-SXM2-16GB", "7.0", False),
        ("cuda:1", "NVIDIA H200", "9.0", True),
    ],
)
def test_a_gpu_by_its_number(name: str, model: str, capability: str, has_tf32: bool) -> None:
    found = device.cuda_device(name)
    assert found == {"name": model, "compute_capability": capability}
    assert device.has_tf32(found) is has_tf32


@pytest.mark.usefixtures("driver")
@pytest.mark.parametrize("name", ["cpu", "cuda:2"])
def test_no_such_gpu(name: str) -> None:
    assert device.cuda_device(name) is None


def test_a_process_without_a_driver_tells_nothing() -> None:
    """Nothing is known then that would rule TF32 out."""
    assert device.cuda_device("cuda:0") is None
    assert device.has_tf32(None)
