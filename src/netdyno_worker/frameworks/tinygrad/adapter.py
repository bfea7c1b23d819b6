"""tinygrad: the network as a function of tensors, ``TinyJit`` around each phase."""

from __future__ import annotations

import ctypes
import glob
import os
import subprocess
import sys
from typing import Any, Dict, List, Mapping, Optional, Tuple

import numpy as np

from netdyno_worker.adapter import LOSS_SCALE, UnsupportedError
from netdyno_worker.adapter import Adapter as Base
from netdyno_worker.lazy import Lazy
from netdyno_worker.protocol import Job

# Variables that change which kernels tinygrad makes: what a person has set stays in force.
SETTINGS = ("BEAM", "IMAGE", "JIT", "JITBEAM", "NOOPT", "TC", "TC_OPT", "TC_SELECT", "WINO")


class Adapter(Base):
    @classmethod
    def prepare(cls, job: Job) -> None:
        on_cpu = job.device == "cpu"
        os.environ["DEV"] = "CPU" if on_cpu else "CUDA"
        os.environ["ALLOW_TF32"] = "1" if job.precision == "tf32" else "0"
        # The kernels of one trial compile anew in each, and the person's cache stays untouched.
        if job.scratch:
            os.environ["CACHEDB"] = os.path.join(job.scratch, "tinygrad.db")
        else:
            os.environ["CACHELEVEL"] = "0"
        os.environ["CUDA_CACHE_DISABLE"] = "1"  # of the driver, which compiles PTX
        # Processes that compile, besides; kernels themselves run on one thread.
        os.environ["PARALLEL"] = str(job.threads)
        os.environ["NUM_CPU_THREADS"] = "1"
        # tinygrad gives $CC arguments that only clang understands.
        if "clang" not in os.path.basename(os.environ.get("CC", "")):
            os.environ["CC"] = "clang"
        if not on_cpu:
            _find_cuda_toolkit()

    @classmethod
    def imports(cls, job: Job) -> None:
        # tinygrad opens a device when it is first asked for it.
        from netdyno_worker.frameworks.tinygrad import function  # noqa: F401

    def __init__(self, job: Job) -> None:
        import tinygrad

        from netdyno_worker.frameworks.tinygrad import function

        self.tinygrad = tinygrad
        self.job = job
        self.device = _device_name(job.device)
        if job.precision == "tf32" and job.device == "cpu":
            raise UnsupportedError("tf32 is a precision of GPUs")
        self.opened = _open(tinygrad, self.device)
        if job.precision == "bf16" and job.device == "cpu":
            _must_know_bfloat16(self.opened.compiler)
        tinygrad.Tensor.manual_seed(job.seed % 2**32)
        self.dtype = np.float64 if job.precision == "fp64" else np.float32
        self.scale = LOSS_SCALE if job.precision == "fp16" else 1.0
        self.network = function.build(job.network, job.precision)
        shapes = job.network.parameter_shapes()
        self._parameters = {name: self._filled(shape) for name, shape in shapes.items()}
        self._momenta = {name: self._filled(shape) for name, shape in shapes.items()}
        self._running = {
            layer.name + key: self._filled((layer.output_shape[0],))
            for layer in job.network.batch_norms()
            for key in (".running_mean", ".running_variance")
        }
        self._jit_forward = tinygrad.TinyJit(self._run_forward)
        self._jit_gradients = tinygrad.TinyJit(self._run_gradients)
        self._jit_step = tinygrad.TinyJit(self._run_step)

    def _put(self, value: np.ndarray) -> Any:
        return self._tensor(value).contiguous().realize()

    def _filled(self, shape: Tuple[int, ...], value: float = 0.0) -> Any:
        """Made where it is to lie."""
        dtypes = self.tinygrad.dtypes
        dtype = dtypes.float64 if self.dtype is np.float64 else dtypes.float32
        made = self.tinygrad.Tensor.full(shape, value, device=self.device, dtype=dtype)
        return made.contiguous().realize()

    def _tensor(self, value: np.ndarray) -> Any:
        """Of an array of its own: tinygrad's CUDA device copies from none that is read-only."""
        return self.tinygrad.Tensor(np.array(value, order="C"), device=self.device)

    def load(self, parameters: Mapping[str, np.ndarray]) -> None:
        # Into the memory that is there: captured kernels hold on to it.
        for name, value in parameters.items():
            new = self._tensor(value.astype(self.dtype, copy=False))
            self._parameters[name].assign(new).realize()
        for value in self._momenta.values():
            value.assign(self._filled(value.shape)).realize()
        for name, value in self._running.items():
            start = 1.0 if name.endswith("variance") else 0.0
            value.assign(self._filled(value.shape, start)).realize()

    def set_batch(self, images: np.ndarray, labels: np.ndarray) -> None:
        self._images = self._put(images.astype(self.dtype, copy=False))
        self._labels = self._put(labels)

    def _run_forward(self, images: Any, labels: Any) -> Any:
        logits, loss, running = self.network(self._parameters, self._running, images, labels)
        self._assign(self._running, running)
        self._realize(logits, loss)
        return logits, loss

    def _run_gradients(self, images: Any, labels: Any) -> Any:
        loss, gradients = self._gradients_of(images, labels)
        # Made real here, all of them: what nobody asks for is never computed.
        self._realize(loss, *gradients.values())
        return loss, gradients

    def _run_step(self, images: Any, labels: Any) -> Any:
        loss, gradients = self._gradients_of(images, labels)
        rate, momentum, decay = self.job.hyperparameters
        for name, gradient in gradients.items():
            weight, velocity = self._parameters[name], self._momenta[name]
            velocity.assign(momentum * velocity + (gradient + decay * weight))
            weight.assign(weight - rate * velocity)
        self._realize(loss, *self._parameters.values(), *self._momenta.values())
        return loss

    def _gradients_of(self, images: Any, labels: Any) -> Any:
        _, loss, running = self.network(self._parameters, self._running, images, labels)
        found = (loss * self.scale).gradient(*self._parameters.values())
        self._assign(self._running, running)
        return loss, {
            name: gradient / self.scale for name, gradient in zip(self._parameters, found)
        }

    def _assign(self, tensors: Mapping[str, Any], new: Mapping[str, Any]) -> None:
        for name, value in new.items():
            tensors[name].assign(value)

    def _realize(self, *tensors: Any) -> None:
        self.tinygrad.Tensor.realize(*tensors, *self._running.values())

    def forward(self) -> None:
        with self._training():
            self._logits, self._loss = self._jit_forward(self._images, self._labels)

    def forward_backward(self) -> None:
        with self._training():
            self._loss, self._gradients = self._jit_gradients(self._images, self._labels)

    def train_step(self) -> None:
        with self._training():
            self._loss = self._jit_step(self._images, self._labels)

    def _training(self) -> Any:
        return self.tinygrad.Context(TRAINING=1)

    def state(self) -> List[Any]:
        """What lasts from call to call: parameters, momenta, running statistics."""
        return [
            tensor
            for tensors in (self._parameters, self._momenta, self._running)
            for tensor in tensors.values()
        ]

    def synchronize(self) -> None:
        self.opened.synchronize()

    def loss(self) -> float:
        return float(self._loss.item())

    def logits(self) -> np.ndarray:
        return self._logits.numpy()

    def gradients(self) -> Mapping[str, np.ndarray]:
        found = self._gradients
        return Lazy(found, lambda name: found[name].numpy())

    def input_gradient(self) -> np.ndarray:
        with self._training():
            loss = self.network(self._parameters, self._running, self._images, self._labels)[1]
            (gradient,) = (loss * self.scale).gradient(self._images)
            return (gradient / self.scale).numpy()

    def parameters(self) -> Mapping[str, np.ndarray]:
        return Lazy(self._parameters, lambda name: self._parameters[name].numpy())

    def running_statistics(self) -> Dict[str, np.ndarray]:
        return {name: value.numpy() for name, value in self._running.items()}

    def versions(self) -> Dict[str, str]:
        found = {"tinygrad": _tinygrad_version()}
        if self.job.device == "cpu":
            found["clang"] = _clang_version()
        else:
            found["cuda"] = _nvrtc_version()
        return found

    def threads(self) -> Dict[str, Any]:
        if self.job.device != "cpu":
            return {"count": None, "source": "kernels run on the GPU"}
        # A worker runs one kernel at a time; where there is none, the thread that calls does.
        workers = len(self.opened.workers)
        return {"count": max(1, workers), "source": "workers of tinygrad's CPU device"}

    def tf32(self) -> Optional[bool]:
        if self.job.device == "cpu":
            return False
        return bool(self.tinygrad.helpers.ALLOW_TF32.value)

    def notes(self) -> List[str]:
        found = []
        if any(getattr(x, "reduction", "") == "max" for x in self.job.network.layers):
            found.append("max pooling shares a gradient among equal largest values")
        if self.job.precision == "fp16":
            found.append("the loss is scaled by {:.0f}".format(LOSS_SCALE))
        found += [
            "{} is {}".format(name, os.environ[name]) for name in SETTINGS if name in os.environ
        ]
        return found


def _device_name(device: str) -> str:
    """tinygrad's name of ``cpu`` or ``cuda:N``."""
    return device.upper()


def _open(tinygrad: Any, name: str) -> Any:
    """The device, with its compiler found. Raises UnsupportedError where one of them is missing."""
    try:
        opened = tinygrad.Device[name]
        _ = opened.compiler
    except Exception as error:  # tinygrad has no type for it
        text = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise UnsupportedError("tinygrad cannot open {}: {}".format(name, text)) from error
    if name == "CPU":
        # It takes a kernel that runs for 30 s for a hung device: a convolution of a large batch on
        # one thread may. A trial has a time limit of its own.
        opened.wait_timeout_ms = 24 * 3600 * 1000
    return opened


def _must_know_bfloat16(compiler: Any) -> None:
    """Raises UnsupportedError. On x86, clang 14 has no such type, and 16 no cast to it."""
    try:
        compiler.compile("void round_to(__bf16 *to, float *from) { *to = (__bf16)(*from); }")
    except subprocess.CalledProcessError:
        raise UnsupportedError(
            "clang {} has no bfloat16 on this processor: name a newer one in CC".format(
                _clang_version()
            )
        ) from None


def _find_cuda_toolkit() -> None:
    """Say where NVRTC and CUDA's headers are, if they came as Python packages (as PyTorch's do).

    tinygrad looks for them in the system's folders only, and at these variables.
    """
    for folder in sys.path:
        packages = os.path.join(glob.escape(folder), "nvidia", "*")
        for library in sorted(glob.glob(os.path.join(packages, "lib", "libnvrtc.so.*"))):
            os.environ.setdefault("NVRTC_PATH", library)
        for header in sorted(glob.glob(os.path.join(packages, "include", "cuda_fp16.h"))):
            os.environ.setdefault("CUDA_PATH", os.path.dirname(os.path.dirname(header)))


def _tinygrad_version() -> str:
    """From its package's metadata, which a checkout on PYTHONPATH has not."""
    from importlib import metadata

    try:
        return metadata.version("tinygrad")
    except metadata.PackageNotFoundError:
        return "unknown"


def _clang_version() -> str:
    """``14.0.6`` of what ``$CC`` names."""
    done = subprocess.run(
        [os.environ["CC"], "-dumpversion"], stdout=subprocess.PIPE, universal_newlines=True
    )
    return done.stdout.strip()


def _nvrtc_version() -> str:
    """``13.0``: of the compiler of the kernels, as the library that is loaded tells."""
    from tinygrad.runtime.autogen import nvrtc

    major, minor = ctypes.c_int(), ctypes.c_int()
    nvrtc.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    return "{}.{}".format(major.value, minor.value)
