"""Keras over TensorFlow: ``tf.GradientTape`` in ``tf.function``, compiled by XLA as ``fit`` is.

After Keras' guide "Writing a training loop from scratch in TensorFlow".
"""

from __future__ import annotations

import os
from typing import Any, Dict, Optional

import numpy as np

from netdyno_worker.frameworks.keras.trainer import Trainer as Base
from netdyno_worker.frameworks.keras.trainer import without_autotuning
from netdyno_worker.frameworks.tensorflow import adapter as tensorflow
from netdyno_worker.protocol import Job


class Trainer(Base):
    title = "TensorFlow"

    @classmethod
    def prepare(cls, job: Job) -> None:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
        # XLA's pool does not follow tf.config.
        os.environ["NPROC"] = str(job.threads)
        if job.precision != "tf32":
            os.environ["NVIDIA_TF32_OVERRIDE"] = "0"
        if job.device == "cpu":
            os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
        elif not job.autotune:
            os.environ["TF_CUDNN_USE_AUTOTUNE"] = "0"
            os.environ["XLA_FLAGS"] = without_autotuning(os.environ.get("XLA_FLAGS", ""))

    def configure(self) -> None:
        import tensorflow as tf

        self.tf = tf
        tf.config.threading.set_intra_op_parallelism_threads(self.job.threads)
        tf.config.threading.set_inter_op_parallelism_threads(self.job.threads)
        tf.config.experimental.enable_tensor_float_32_execution(self.job.precision == "tf32")
        self.device = tensorflow.find_device(tf, self.job.device)

    def placed(self) -> Any:
        return self.tf.device(self.device)

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        tf, decay, scale = self.tf, job.hyperparameters.weight_decay, self.scale
        variables = self.variables
        values = [variable.value for variable in variables]

        def run(images, labels):
            return self.built.judged(self.model(images, training=True), labels)

        def gradients(images, labels):
            with tf.GradientTape(watch_accessed_variables=False) as tape:
                tape.watch(values)
                _, loss = run(images, labels)
                scaled = loss * scale
            return loss, [gradient / scale for gradient in tape.gradient(scaled, values)]

        def step(images, labels):
            loss, found = gradients(images, labels)
            decayed = [gradient + decay * value for gradient, value in zip(found, values)]
            self.optimizer.apply(decayed, variables)
            return loss

        def by_images(images, labels):
            with tf.GradientTape(watch_accessed_variables=False) as tape:
                tape.watch(images)
                _, loss = run(images, labels)
            return tape.gradient(loss, images)

        compiled = self.model.jit_compile
        self._forward = tf.function(run, jit_compile=compiled)
        self._gradients_of = tf.function(gradients, jit_compile=compiled)
        self._step = tf.function(step, jit_compile=compiled)
        self._by_images = tf.function(by_images, jit_compile=compiled)

    def set_batch(self, images: np.ndarray, labels: np.ndarray) -> None:
        with self.placed():
            # identity: a constant may lie in host memory even inside tf.device.
            self._batch = tuple(
                self.tf.identity(self.tf.constant(value)) for value in (images, labels)
            )

    def forward(self) -> None:
        with self.placed():
            self._logits, self._loss = self._forward(*self._batch)

    def forward_backward(self) -> None:
        with self.placed():
            self._loss, self._gradients = self._gradients_of(*self._batch)

    def train_step(self) -> None:
        with self.placed():
            self._loss = self._step(*self._batch)

    def synchronize(self) -> None:
        self.tf.test.experimental.sync_devices()

    def loss(self) -> float:
        return float(self._loss)

    def logits(self) -> np.ndarray:
        return self._logits.numpy()

    def gradients(self) -> Dict[str, np.ndarray]:
        return {name: found.numpy() for name, found in zip(self.names, self._gradients)}

    def input_gradient(self) -> np.ndarray:
        with self.placed():
            return self._by_images(*self._batch).numpy()

    def versions(self) -> Dict[str, str]:
        return tensorflow.versions(self.tf, self.job.device)

    def threads(self) -> Dict[str, Any]:
        return {
            "count": self.tf.config.threading.get_intra_op_parallelism_threads(),
            "source": "tf.config.threading.get_intra_op_parallelism_threads()",
        }

    def tf32(self) -> Optional[bool]:
        return bool(self.tf.config.experimental.tensor_float_32_execution_enabled())
