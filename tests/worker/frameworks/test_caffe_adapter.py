"""What of Caffe's adapter can be told without Caffe; the rest is in tests/integration."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from netdyno.frameworks import framework
from netdyno_worker.adapter import UnsupportedError
from netdyno_worker.frameworks.caffe.adapter import _use_device, solver
from netdyno_worker.frameworks.caffe.prototxt import Prototxt
from netdyno_worker.protocol import Hyperparameters


class FakeCaffe:
    def __init__(self) -> None:
        self.told: list[Any] = []

    def set_mode_cpu(self) -> None:
        self.told.append("cpu")

    def set_mode_gpu(self) -> None:
        self.told.append("gpu")

    def set_device(self, index: int) -> None:
        self.told.append(index)


class TwoDevices:
    def cudaGetDeviceCount(self, reference: Any) -> int:  # noqa: N802 - CUDA's own name
        reference._obj.value = 2
        return 0


def test_the_solver_is_told_every_digit() -> None:
    written = Prototxt('name: "n"\n', "labels", {}, {})
    text = solver(written, Hyperparameters(1e-4, 0.9, 0.123456789))
    for line in ("base_lr: 0.0001", "momentum: 0.9", "weight_decay: 0.123456789", 'type: "SGD"'):
        assert line in text.splitlines()
    assert text.endswith('net_param {\nname: "n"\n}\n')


def test_devices() -> None:
    caffe = FakeCaffe()
    _use_device(caffe, object(), "cpu")
    _use_device(caffe, TwoDevices(), "cuda:1")
    assert caffe.told == ["cpu", 1, "gpu"]
    with pytest.raises(UnsupportedError, match="built without CUDA"):
        _use_device(caffe, object(), "cuda:0")
    with pytest.raises(UnsupportedError, match="sees no cuda:2"):
        _use_device(caffe, TwoDevices(), "cuda:2")


STOOD_IN = """
import runpy, sys, types
sys.modules["scipy"] = real = types.ModuleType("scipy")
runpy.run_path(sys.argv[1])
import skimage.io
from skimage.transform import resize
assert sys.modules["scipy"] is real and "scipy.ndimage" not in sys.modules
try:
    resize(1, order=2)
except ImportError as error:
    print(error)
"""


def test_stand_ins_take_the_place_of_nothing_that_is_there() -> None:
    path = str(framework("caffe").folder / "stand_ins.py")
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", STOOD_IN, path],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "scikit-image and SciPy are not installed" in done.stdout
