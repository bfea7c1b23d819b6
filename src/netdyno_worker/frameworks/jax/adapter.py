"""JAX: the network as a pure function, ``jax.jit`` around forward, gradient and update."""

from __future__ import annotations

import os
import re
from typing import Any, Dict, List, Mapping, Optional, Tuple

import numpy as np

from netdyno_worker.adapter import LOSS_SCALE, UnsupportedError
from netdyno_worker.adapter import Adapter as Base
from netdyno_worker.lazy import Lazy
from netdyno_worker.protocol import Job

# Values of jax_default_matmul_precision under which single precision is single precision.
FULL_PRECISION = ("highest", "float32", "F32_F32_F32")


class Adapter(Base):
    @classmethod
    def prepare(cls, job: Job) -> None:
        # On CPU, XLA makes as many threads as it believes there are cores. NPROC is what it
        # believes; OMP_NUM_THREADS and the like do nothing.
        os.environ["NPROC"] = str(job.threads)
        os.environ["JAX_PLATFORMS"] = "cpu" if job.device == "cpu" else "cuda"
        os.environ["JAX_ENABLE_X64"] = "1" if job.precision == "fp64" else "0"
        # XLA must find what it found at the last trial: it compiles anew in each.
        os.environ["JAX_ENABLE_COMPILATION_CACHE"] = "0"
        if job.checks:  # other verifications share the GPU, of which XLA would take three quarters
            os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        if not job.autotune:
            flags = os.environ.get("XLA_FLAGS", "")
            os.environ["XLA_FLAGS"] = (flags + " --xla_gpu_autotune_level=0").strip()

    @classmethod
    def imports(cls, job: Job) -> None:
        # JAX opens its devices when it is first asked for them.
        from netdyno_worker.frameworks.jax import function  # noqa: F401

    def __init__(self, job: Job) -> None:
        import jax

        from netdyno_worker.frameworks.jax import function

        self.jax = jax
        if job.device != "cpu":
            # "fp32" means it: on GPUs, XLA would otherwise choose TF32.
            chosen = "tensorfloat32" if job.precision == "tf32" else "highest"
            jax.config.update("jax_default_matmul_precision", chosen)
        self.job = job
        index = int(job.device.split(":")[1]) if ":" in job.device else 0
        devices = jax.devices()
        if index >= len(devices):
            raise UnsupportedError("JAX sees {} devices, not cuda:{}".format(len(devices), index))
        self.device = devices[index]
        # Parameters, their gradients and the update are never narrower than single precision.
        self.dtype = np.float64 if job.precision == "fp64" else np.float32
        compute = {"bf16": jax.numpy.bfloat16, "fp16": np.float16}.get(job.precision, self.dtype)
        scale = LOSS_SCALE if job.precision == "fp16" else 1
        self.channels_last = job.layout == "nhwc"
        network = function.build(job.network, self.channels_last, compute)
        rate, momentum, decay = job.hyperparameters

        def gradients(parameters, running, images, labels, key):
            def scaled(p):
                _, loss, new_running = network(p, running, images, labels, key)
                return loss * scale, (loss, new_running)

            grads, (loss, running) = jax.grad(scaled, has_aux=True)(parameters)
            if scale != 1:
                grads = jax.tree.map(lambda g: g / scale, grads)
            return (loss, running), grads

        def step(parameters, momenta, running, images, labels, key):
            (loss, running), grads = gradients(parameters, running, images, labels, key)
            momenta = jax.tree.map(
                lambda v, g, w: momentum * v + (g + decay * w), momenta, grads, parameters
            )
            parameters = jax.tree.map(lambda w, v: w - rate * v, parameters, momenta)
            return loss, parameters, momenta, running

        def by_images(images, parameters, running, labels, key):
            return network(parameters, running, images, labels, key)[1]

        self._forward = jax.jit(network)
        self._by_images = jax.jit(jax.grad(by_images))
        self._gradients_of = jax.jit(gradients)
        self._step = jax.jit(step, donate_argnums=(0, 1, 2))
        # Whether anything random happens decides if a key must change from call to call.
        self.has_dropout = any(layer.kind == "Dropout" for layer in job.network.layers)

    def _put(self, value: Any) -> Any:
        return self.jax.device_put(value, self.device)

    def load(self, parameters: Mapping[str, np.ndarray]) -> None:
        self._parameters = {
            name: self._put(self._inward(value.astype(self.dtype)))
            for name, value in parameters.items()
        }
        self._momenta = {
            name: self.jax.numpy.zeros(value.shape, self.dtype, device=self.device)
            for name, value in self._parameters.items()
        }
        self._running = {
            layer.name: tuple(
                self._put(np.full(layer.output_shape[0], start, self.dtype)) for start in (0, 1)
            )
            for layer in self.job.network.batch_norms()
        }
        self._key = self._put(self.jax.random.key(self.job.seed % 2**32))

    def set_batch(self, images: np.ndarray, labels: np.ndarray) -> None:
        if self.channels_last:
            images = images.transpose(0, 2, 3, 1)
        self._images = self._put(np.ascontiguousarray(images, self.dtype))
        self._labels = self._put(labels)

    def _next_key(self) -> Any:
        if self.has_dropout:
            self._key, key = self.jax.random.split(self._key)
            return key
        return self._key

    def program(self, phase: str) -> Tuple[Any, Tuple[Any, ...]]:
        """The jitted function that ``phase`` calls, and what it is called with."""
        batch = (self._running, self._images, self._labels, self._next_key())
        if phase == "train_step":
            return self._step, (self._parameters, self._momenta, *batch)
        function = self._forward if phase == "forward" else self._gradients_of
        return function, (self._parameters, *batch)

    def forward(self) -> None:
        function, arguments = self.program("forward")
        self._logits, self._loss, self._running = function(*arguments)

    def forward_backward(self) -> None:
        function, arguments = self.program("forward_backward")
        (self._loss, self._running), self._gradients = function(*arguments)

    def train_step(self) -> None:
        function, arguments = self.program("train_step")
        self._loss, self._parameters, self._momenta, self._running = function(*arguments)

    def synchronize(self) -> None:
        # Everything that was started: the outputs of a call become ready one by one.
        state = vars(self)
        names = ("_logits", "_loss", "_gradients", "_running", "_parameters", "_momenta")
        self.jax.block_until_ready([state[name] for name in names if name in state])

    def loss(self) -> float:
        return float(self._loss)

    def logits(self) -> np.ndarray:
        return np.asarray(self._logits.astype(self.dtype))

    def gradients(self) -> Mapping[str, np.ndarray]:
        return self._outside(self._gradients)

    def _outside(self, arrays: Mapping[str, Any]) -> Mapping[str, np.ndarray]:
        return Lazy(arrays, lambda name: self._outward(np.asarray(arrays[name])))

    def input_gradient(self) -> np.ndarray:
        found = np.asarray(
            self._by_images(
                self._images, self._parameters, self._running, self._labels, self._next_key()
            )
        )
        return found.transpose(0, 3, 1, 2) if self.channels_last else found

    def parameters(self) -> Mapping[str, np.ndarray]:
        return self._outside(self._parameters)

    def running_statistics(self) -> Dict[str, np.ndarray]:
        found = {}
        for name, (mean, variance) in self._running.items():
            found[name + ".running_mean"] = np.asarray(mean)
            found[name + ".running_variance"] = np.asarray(variance)
        return found

    def _inward(self, value: np.ndarray) -> np.ndarray:
        """To JAX's habits: OIHW to HWIO when channels are last, (out, in) to (in, out)."""
        if value.ndim == 4 and self.channels_last:
            return np.ascontiguousarray(value.transpose(2, 3, 1, 0))
        return np.ascontiguousarray(value.T) if value.ndim == 2 else value

    def _outward(self, value: np.ndarray) -> np.ndarray:
        if value.ndim == 4 and self.channels_last:
            return value.transpose(3, 2, 0, 1)
        return value.T if value.ndim == 2 else value

    def versions(self) -> Dict[str, str]:
        return versions(self.jax, self.device)

    def threads(self) -> Dict[str, Any]:
        return threads()

    def notes(self) -> List[str]:
        if self.job.precision != "fp16":
            return []
        return ["the loss is scaled by a constant {:.0f}".format(LOSS_SCALE)]

    def tf32(self) -> Optional[bool]:
        if self.job.device == "cpu":
            return False
        # What convolutions and matrix products take unless told otherwise. The other values, and
        # none at all, let XLA choose TF32 or less.
        return self.jax.config.jax_default_matmul_precision not in FULL_PRECISION


def versions(jax: Any, device: Any) -> Dict[str, str]:
    import jaxlib

    found = {"jax": jax.__version__, "jaxlib": jaxlib.__version__}
    # XLA has no release of its own: a jaxlib carries one state of it.
    found["xla"] = "in jaxlib " + jaxlib.__version__
    match = re.match(r"cuda (\d+)", device.client.platform_version)  # "cuda 13000"
    if match:
        number = int(match.group(1))
        found["cuda"] = "{}.{}".format(number // 1000, number % 1000 // 10)
    return found


def threads() -> Dict[str, Any]:
    """Of the pool that runs compiled programs on a CPU."""
    names: List[str] = []
    for task in os.listdir("/proc/self/task") if os.path.isdir("/proc/self/task") else []:
        with open("/proc/self/task/{}/comm".format(task)) as file:
            names.append(file.read().strip())
    # Linux cuts thread names at 15 characters.
    pool = [name for name in names if name.startswith("tf_XLAEigen")]
    return {"count": len(pool) or None, "source": "threads named tf_XLAEigen"}
