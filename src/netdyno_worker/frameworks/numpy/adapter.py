"""The plain reference: slow, readable, in float64 or float32."""

from __future__ import annotations

from typing import Any, Dict, Mapping

import numpy as np

from netdyno_worker.adapter import Adapter as Base
from netdyno_worker.frameworks.numpy import operations
from netdyno_worker.network import INPUT, Layer
from netdyno_worker.protocol import Job

DTYPES = {"fp64": np.float64, "fp32": np.float32}


class Adapter(Base):
    def __init__(self, job: Job) -> None:
        self.network = job.network
        self.hyperparameters = job.hyperparameters
        self.dtype = DTYPES[job.precision]
        # Dropout draws its own masks: no other framework has the same.
        self._random = np.random.RandomState(job.seed % 2**32)

    def load(self, parameters: Mapping[str, np.ndarray]) -> None:
        self._parameters = {name: value.astype(self.dtype) for name, value in parameters.items()}
        self._momenta = {name: np.zeros_like(value) for name, value in self._parameters.items()}
        self.running = {}
        for layer in self.network.batch_norms():
            self.running[layer.name + ".running_mean"] = np.zeros(layer.output_shape[0], self.dtype)
            self.running[layer.name + ".running_variance"] = np.ones(
                layer.output_shape[0], self.dtype
            )

    def set_batch(self, images: np.ndarray, labels: np.ndarray) -> None:
        self._images = images.astype(self.dtype)
        self._labels = labels

    def _own(self, layer: Layer) -> Dict[str, np.ndarray]:
        return {short: self._parameters[layer.name + "." + short] for short in layer.parameters}

    def forward(self) -> None:
        values = {INPUT: self._images}
        self._saved: Dict[str, Any] = {}
        self._loss = 0.0
        for layer in self.network.layers:
            inputs = [values[name] for name in layer.inputs]
            if layer.kind == "SoftmaxCrossEntropy":
                loss, gradient = operations.softmax_cross_entropy(
                    inputs[0], self._labels, layer.weight
                )
                self._loss += float(loss)
                self._saved[layer.name] = gradient
            elif layer.kind == "Dropout":
                kept = self._random.random_sample(inputs[0].shape) >= layer.rate
                mask = kept.astype(self.dtype) / self.dtype(1 - layer.rate)
                values[layer.name] = inputs[0] * mask
                self._saved[layer.name] = mask
            else:
                values[layer.name], self._saved[layer.name] = operations.FORWARD[layer.kind](
                    layer, inputs, self._own(layer)
                )
                if layer.kind == "BatchNorm":
                    self._update_running(layer)
        self._logits = values[self.network.output]

    def _update_running(self, layer: Layer) -> None:
        mean, variance, count = self._saved[layer.name][2:]
        unbiased = variance * (count / max(1, count - 1))
        for name, new in (("mean", mean), ("variance", unbiased)):
            running = self.running[layer.name + ".running_" + name]
            running += layer.momentum * (new - running)

    def forward_backward(self) -> None:
        self.forward()
        by_output: Dict[str, Any] = {}
        self._gradients: Dict[str, np.ndarray] = {}
        for layer in reversed(self.network.layers):
            saved = self._saved[layer.name]
            if layer.kind == "SoftmaxCrossEntropy":
                by_inputs = [saved]
            elif layer.kind == "Dropout":
                by_inputs = [by_output[layer.name] * saved]
            else:
                by_inputs, own = operations.BACKWARD[layer.kind](
                    layer, by_output[layer.name], saved, self._own(layer)
                )
                self._gradients.update({layer.name + "." + k: g for k, g in own.items()})
            for name, gradient in zip(layer.inputs, by_inputs):
                by_output[name] = by_output[name] + gradient if name in by_output else gradient
        self._by_images = by_output[INPUT]

    def train_step(self) -> None:
        self.forward_backward()
        rate, momentum, decay = self.hyperparameters
        for name, value in self._parameters.items():
            velocity = self._momenta[name]
            velocity *= momentum
            velocity += self._gradients[name] + decay * value
            value -= rate * velocity

    def synchronize(self) -> None:
        pass

    def loss(self) -> float:
        return self._loss

    def logits(self) -> np.ndarray:
        return self._logits

    def gradients(self) -> Dict[str, np.ndarray]:
        return {name: self._gradients[name] for name in self._parameters}

    def input_gradient(self) -> np.ndarray:
        self.forward_backward()
        return self._by_images

    def parameters(self) -> Dict[str, np.ndarray]:
        return dict(self._parameters)

    def running_statistics(self) -> Dict[str, np.ndarray]:
        return dict(self.running)

    def versions(self) -> Dict[str, str]:
        return {"numpy": np.__version__}

    def threads(self) -> Dict[str, Any]:
        return {"count": None, "source": "left to NumPy's BLAS"}
