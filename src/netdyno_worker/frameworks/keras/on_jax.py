"""Keras over JAX: ``stateless_call``, its gradient and ``stateless_apply`` in ``jax.jit``.

After Keras' guide "Writing a training loop from scratch in JAX".
"""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, Mapping, Optional, Tuple

import numpy as np

from netdyno_worker.adapter import UnsupportedError
from netdyno_worker.frameworks.jax import adapter as jax_adapter
from netdyno_worker.frameworks.jax.memory import planned
from netdyno_worker.frameworks.keras.trainer import Trainer as Base
from netdyno_worker.frameworks.keras.trainer import without_autotuning
from netdyno_worker.lazy import Lazy
from netdyno_worker.memory import Reported
from netdyno_worker.protocol import Job

# jax_default_matmul_precision; what it would be by itself lets XLA choose TF32.
SINGLE, TF32 = "highest", "tensorfloat32"


class Trainer(Base):
    title = "JAX"

    @classmethod
    def prepare(cls, job: Job) -> None:
        # XLA makes as many threads as it believes there are cores: this is what it believes.
        os.environ["NPROC"] = str(job.threads)
        os.environ["JAX_PLATFORMS"] = "cpu" if job.device == "cpu" else "cuda"
        os.environ["JAX_ENABLE_X64"] = "1" if job.precision == "fp64" else "0"
        # XLA must find what it found at the last trial: it compiles anew in each.
        os.environ["JAX_ENABLE_COMPILATION_CACHE"] = "0"
        if job.checks:  # other verifications share the GPU, of which XLA would take three quarters
            os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        if job.device != "cpu" and not job.autotune:
            os.environ["XLA_FLAGS"] = without_autotuning(os.environ.get("XLA_FLAGS", ""))

    def configure(self) -> None:
        import jax

        self.jax = jax
        if self.job.device != "cpu":
            precision = TF32 if self.job.precision == "tf32" else SINGLE
            jax.config.update("jax_default_matmul_precision", precision)
        index = int(self.job.device.split(":")[1]) if ":" in self.job.device else 0
        devices = jax.devices()
        if index >= len(devices):
            raise UnsupportedError("JAX sees {} devices, not cuda:{}".format(len(devices), index))
        self.device = devices[index]

    def placed(self) -> Any:
        return self.jax.default_device(self.device)

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        jax, model, optimizer = self.jax, self.model, self.optimizer
        decay, scale = job.hyperparameters.weight_decay, self.scale

        def scaled_loss(trainable, others, images, labels):
            outputs, others = model.stateless_call(trainable, others, images, training=True)
            logits, loss = self.built.judged(outputs, labels)
            return loss * scale, (loss, logits, others)

        def forward(trainable, others, images, labels):
            return scaled_loss(trainable, others, images, labels)[1]

        def gradients(trainable, others, images, labels):
            function = jax.value_and_grad(scaled_loss, has_aux=True)
            (_, (loss, _, others)), found = function(trainable, others, images, labels)
            return loss, others, [gradient / scale for gradient in found]

        def step(trainable, moving, others, images, labels):
            loss, others, found = gradients(trainable, others, images, labels)
            decayed = [gradient + decay * value for gradient, value in zip(found, trainable)]
            trainable, moving = optimizer.stateless_apply(moving, decayed, trainable)
            return loss, trainable, moving, others

        def by_images(images, trainable, others, labels):
            return scaled_loss(trainable, others, images, labels)[1][0]

        if not model.jit_compile:
            raise UnsupportedError("Keras does not compile this model")
        self._forward = jax.jit(forward)
        self._gradients_of = jax.jit(gradients)
        self._by_images = jax.jit(jax.grad(by_images))
        # Keras' own trainer gives its arrays away, too.
        self._step = jax.jit(step, donate_argnums=(0, 1))

    def load(self, parameters: Mapping[str, np.ndarray]) -> None:
        super().load(parameters)
        # What a train step was given away is gone.
        self.optimizer.iterations.assign(0)
        self.optimizer.learning_rate = self.job.hyperparameters.learning_rate
        self._trainable = [variable.value for variable in self.variables]
        self._moving = [variable.value for variable in self.optimizer.variables]
        self._others = [variable.value for variable in self.model.non_trainable_variables]

    def set_batch(self, images: np.ndarray, labels: np.ndarray) -> None:
        self._batch = tuple(self.jax.device_put(value, self.device) for value in (images, labels))

    def program(self, phase: str) -> Tuple[Any, Tuple[Any, ...]]:
        """The jitted function that ``phase`` calls, and what it is called with."""
        if phase == "train_step":
            return self._step, (self._trainable, self._moving, self._others, *self._batch)
        function = self._forward if phase == "forward" else self._gradients_of
        return function, (self._trainable, self._others, *self._batch)

    def forward(self) -> None:
        function, arguments = self.program("forward")
        self._loss, self._logits, self._others = function(*arguments)

    def forward_backward(self) -> None:
        function, arguments = self.program("forward_backward")
        self._loss, self._others, self._gradients = function(*arguments)

    def train_step(self) -> None:
        function, arguments = self.program("train_step")
        self._loss, self._trainable, self._moving, self._others = function(*arguments)

    def reported_memory(self, phase: str, run: Callable[[], None]) -> Reported:
        return planned(*self.program(phase), phase, self.job.device)

    def synchronize(self) -> None:
        # Everything that was started: the outputs of a call become ready one by one.
        state = vars(self)
        names = ("_logits", "_loss", "_gradients", "_others", "_trainable", "_moving")
        self.jax.block_until_ready([state[name] for name in names if name in state])

    def loss(self) -> float:
        return float(self._loss)

    def logits(self) -> np.ndarray:
        return np.asarray(self._logits)

    def gradients(self) -> Mapping[str, np.ndarray]:
        found = dict(zip(self.names, self._gradients))
        return Lazy(found, lambda name: np.asarray(found[name]))

    def input_gradient(self) -> np.ndarray:
        images, labels = self._batch
        return np.asarray(self._by_images(images, self._trainable, self._others, labels))

    def parameters(self) -> Mapping[str, np.ndarray]:
        found = dict(zip(self.names, self._trainable))
        return Lazy(found, lambda name: np.asarray(found[name]))

    def running(self) -> Dict[str, Any]:
        order = [id(variable) for variable in self.model.non_trainable_variables]
        now = dict(zip(order, self._others))
        return {
            name: tuple(np.asarray(now[id(variable)]) for variable in pair)
            for name, pair in self.built.running.items()
        }

    def versions(self) -> Dict[str, str]:
        return jax_adapter.versions(self.jax, self.device)

    def threads(self) -> Dict[str, Any]:
        return jax_adapter.threads()

    def tf32(self) -> Optional[bool]:
        return bool(self.jax.config.jax_default_matmul_precision != SINGLE)
