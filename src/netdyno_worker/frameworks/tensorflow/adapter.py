"""TensorFlow 2: ``tf.function`` graphs, compiled by XLA in mode ``xla``."""

from __future__ import annotations

import glob
import os
import re
from typing import Any, Dict, Mapping, Optional

import numpy as np

from netdyno_worker.adapter import Adapter as Base
from netdyno_worker.adapter import UnsupportedError
from netdyno_worker.lazy import Lazy
from netdyno_worker.protocol import Job


class Adapter(Base):
    @classmethod
    def prepare(cls, job: Job) -> None:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
        # XLA's pool does not follow tf.config.
        os.environ["NPROC"] = str(job.threads)
        os.environ["NVIDIA_TF32_OVERRIDE"] = "0"
        if job.device == "cpu":
            os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

    def __init__(self, job: Job) -> None:
        import tensorflow as tf

        from netdyno_worker.frameworks.tensorflow import function

        self.tf = tf
        self.job = job
        tf.config.threading.set_intra_op_parallelism_threads(job.threads)
        # Branches of a network may run side by side, but never on more cores than were asked for.
        tf.config.threading.set_inter_op_parallelism_threads(job.threads)
        tf.config.experimental.enable_tensor_float_32_execution(False)
        tf.random.set_seed(job.seed % 2**31)
        self.device = find_device(tf, job.device)
        self.dtype = {"fp32": tf.float32, "fp64": tf.float64}[job.precision]
        with tf.device(self.device):
            self.variables = {
                name: tf.Variable(
                    tf.zeros(_inward_shape(shape), self.dtype), name=_variable_name(name)
                )
                for name, shape in job.network.parameter_shapes().items()
            }
            self.velocities = {
                name: tf.Variable(tf.zeros_like(variable))
                for name, variable in self.variables.items()
            }
            self.running = {
                layer.name: (
                    tf.Variable(tf.zeros(layer.output_shape[0], self.dtype), trainable=False),
                    tf.Variable(tf.ones(layer.output_shape[0], self.dtype), trainable=False),
                )
                for layer in job.network.batch_norms()
            }
        run = function.build(job.network, self.variables, self.running, job.mode == "xla")
        self._compile(run)

    def _compile(self, run: Any) -> None:
        tf = self.tf
        rate, momentum, decay = self.job.hyperparameters
        names = list(self.variables)
        variables = [self.variables[name] for name in names]
        velocities = [self.velocities[name] for name in names]

        def gradients(images, labels):
            with tf.GradientTape(watch_accessed_variables=False) as tape:
                tape.watch(variables)
                _, loss = run(images, labels)
            return loss, tape.gradient(loss, variables)

        def by_images(images, labels):
            with tf.GradientTape(watch_accessed_variables=False) as tape:
                tape.watch(images)
                _, loss = run(images, labels)
            return tape.gradient(loss, images)

        def step(images, labels):
            loss, grads = gradients(images, labels)
            for variable, velocity, gradient in zip(variables, velocities, grads):
                # accum = momentum * accum + grad; var -= lr * accum
                tf.raw_ops.ResourceApplyMomentum(
                    var=variable.handle,
                    accum=velocity.handle,
                    lr=tf.constant(rate, self.dtype),
                    grad=gradient + decay * variable,
                    momentum=tf.constant(momentum, self.dtype),
                )
            return loss

        xla = self.job.mode == "xla"
        self._forward = tf.function(run, jit_compile=xla)
        self._gradients_of = tf.function(gradients, jit_compile=xla)
        self._by_images = tf.function(by_images, jit_compile=xla)
        self._step = tf.function(step, jit_compile=xla)

    def load(self, parameters: Mapping[str, np.ndarray]) -> None:
        for name, value in parameters.items():
            self.variables[name].assign(_inward(value))
        for velocity in self.velocities.values():
            velocity.assign(self.tf.zeros_like(velocity))
        for mean, variance in self.running.values():
            mean.assign(self.tf.zeros_like(mean))
            variance.assign(self.tf.ones_like(variance))

    def set_batch(self, images: np.ndarray, labels: np.ndarray) -> None:
        with self.tf.device(self.device):
            # identity: a constant may lie in host memory even inside tf.device.
            self._images = self.tf.identity(
                self.tf.constant(images.transpose(0, 2, 3, 1), self.dtype)
            )
            self._labels = self.tf.identity(self.tf.constant(labels))

    def forward(self) -> None:
        with self.tf.device(self.device):
            self._logits, self._loss = self._forward(self._images, self._labels)

    def forward_backward(self) -> None:
        with self.tf.device(self.device):
            self._loss, self._gradients = self._gradients_of(self._images, self._labels)

    def train_step(self) -> None:
        with self.tf.device(self.device):
            self._loss = self._step(self._images, self._labels)

    def synchronize(self) -> None:
        self.tf.test.experimental.sync_devices()

    def loss(self) -> float:
        return float(self._loss)

    def logits(self) -> np.ndarray:
        return self._logits.numpy()

    def gradients(self) -> Mapping[str, np.ndarray]:
        found = dict(zip(self.variables, self._gradients))
        return Lazy(found, lambda name: _outward(found[name].numpy()))

    def input_gradient(self) -> np.ndarray:
        with self.tf.device(self.device):
            return self._by_images(self._images, self._labels).numpy().transpose(0, 3, 1, 2)

    def parameters(self) -> Mapping[str, np.ndarray]:
        return Lazy(self.variables, lambda name: _outward(self.variables[name].numpy()))

    def running_statistics(self) -> Dict[str, np.ndarray]:
        found = {}
        for name, (mean, variance) in self.running.items():
            found[name + ".running_mean"] = mean.numpy()
            found[name + ".running_variance"] = variance.numpy()
        return found

    def versions(self) -> Dict[str, str]:
        return versions(self.tf, self.job.device)

    def threads(self) -> Dict[str, Any]:
        return {
            "count": self.tf.config.threading.get_intra_op_parallelism_threads(),
            "source": "tf.config.threading.get_intra_op_parallelism_threads()",
        }

    def tf32(self) -> Optional[bool]:
        if self.job.device == "cpu":
            return False
        return bool(self.tf.config.experimental.tensor_float_32_execution_enabled())


def versions(tf: Any, device: str) -> Dict[str, str]:
    build = tf.sysconfig.get_build_info()
    found = {"tensorflow": tf.__version__, "xla": "in tensorflow " + tf.__version__}
    for key, name in (("cuda_version", "cuda"), ("cudnn_version", "cudnn")):
        if device != "cpu" and build.get(key):
            found[name] = str(build[key])
    onednn = _onednn_version(os.path.dirname(tf.__file__))
    if onednn:
        found["onednn"] = onednn
    return found


def find_device(tf: Any, name: str) -> str:
    if name == "cpu":
        return "/CPU:0"
    index = int(name.split(":")[1]) if ":" in name else 0
    count = len(tf.config.list_physical_devices("GPU"))
    if index >= count:
        raise UnsupportedError("this TensorFlow ({}) sees {} GPUs".format(tf.__version__, count))
    return "/GPU:{}".format(index)


def _variable_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.\\/>-]", "_", name)


def _inward(value: np.ndarray) -> np.ndarray:
    """OIHW to HWIO, (out, in) to (in, out): TensorFlow's own layouts of weights."""
    if value.ndim == 4:
        return value.transpose(2, 3, 1, 0)
    return value.T


def _inward_shape(shape: Any) -> Any:
    return (shape[2], shape[3], shape[1], shape[0]) if len(shape) == 4 else tuple(shape[::-1])


def _outward(value: np.ndarray) -> np.ndarray:
    return value.transpose(3, 2, 0, 1) if value.ndim == 4 else value.T


def _onednn_version(folder: str) -> str:
    """From the header that the wheel ships: no function of TensorFlow tells."""
    for path in glob.glob(os.path.join(folder, "include", "**", "dnnl_version.h"), recursive=True):
        with open(path, encoding="utf-8") as file:
            parts = re.findall(r"#define DNNL_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", file.read())
        if len(parts) == 3:
            return ".".join(parts)
    return ""
