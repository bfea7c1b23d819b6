"""Keras 3: a functional model, trained the way that Keras' guides do on each backend."""

from __future__ import annotations

import importlib
import importlib.util
import os
from typing import Any, Dict, List, Mapping, Optional, Type

import numpy as np

from netdyno_worker.adapter import LOSS_SCALE, UnsupportedError
from netdyno_worker.adapter import Adapter as Base
from netdyno_worker.frameworks.keras.trainer import Trainer, outward
from netdyno_worker.lazy import Lazy
from netdyno_worker.protocol import Job


class Adapter(Base):
    """Between the neutral layout and Keras'; what a mode does is in ``on_MODE.py``."""

    @classmethod
    def prepare(cls, job: Job) -> None:
        os.environ["KERAS_BACKEND"] = job.mode
        # Keras reads and writes its configuration there: nothing of the person's.
        os.environ["KERAS_HOME"] = job.scratch or os.devnull
        _trainer(job.mode).prepare(job)

    @classmethod
    def imports(cls, job: Job) -> None:
        if importlib.util.find_spec(job.mode) is not None:
            import keras  # noqa: F401 - which imports its backend

    def __init__(self, job: Job) -> None:
        trainer = _trainer(job.mode)
        if importlib.util.find_spec(job.mode) is None:
            raise UnsupportedError("{} is not installed beside this Keras".format(trainer.title))
        self.job = job
        self.channels_last = job.layout == "nhwc"
        self.dtype = np.float64 if job.precision == "fp64" else np.float32
        self.trainer = trainer(job)

    def load(self, parameters: Mapping[str, np.ndarray]) -> None:
        self.trainer.load(parameters)

    def set_batch(self, images: np.ndarray, labels: np.ndarray) -> None:
        if self.channels_last:
            images = images.transpose(0, 2, 3, 1)
        self.trainer.set_batch(np.ascontiguousarray(images, self.dtype), labels)

    def forward(self) -> None:
        self.trainer.forward()

    def forward_backward(self) -> None:
        self.trainer.forward_backward()

    def train_step(self) -> None:
        self.trainer.train_step()

    def synchronize(self) -> None:
        self.trainer.synchronize()

    def loss(self) -> float:
        return self.trainer.loss()

    def logits(self) -> np.ndarray:
        return self.trainer.logits().astype(self.dtype)

    def gradients(self) -> Mapping[str, np.ndarray]:
        found = self.trainer.gradients()
        return Lazy(found, lambda name: outward(found[name]))

    def input_gradient(self) -> np.ndarray:
        found = self.trainer.input_gradient()
        return found.transpose(0, 3, 1, 2) if self.channels_last else found

    def parameters(self) -> Mapping[str, np.ndarray]:
        found = self.trainer.parameters()
        return Lazy(found, lambda name: outward(found[name]))

    def running_statistics(self) -> Dict[str, np.ndarray]:
        found = {}
        for name, (mean, variance) in self.trainer.running().items():
            found[name + ".running_mean"] = mean
            found[name + ".running_variance"] = variance
        return found

    def versions(self) -> Dict[str, str]:
        return {"keras": self.trainer.keras.__version__, **self.trainer.versions()}

    def threads(self) -> Dict[str, Any]:
        return self.trainer.threads()

    def tf32(self) -> Optional[bool]:
        return False if self.job.device == "cpu" else self.trainer.tf32()

    def notes(self) -> List[str]:
        found = ["weight decay is added to the gradients: that of Keras' optimizers is decoupled"]
        if self.job.network.batch_norms():
            found.append("running variances are averages of the biased variance")
        if any(layer.kind == "LRN" for layer in self.job.network.layers):
            found.append("LRN is a layer of keras.ops: Keras has none")
        if self.job.precision == "fp16":
            found.append("the loss is scaled by a constant {:.0f}".format(LOSS_SCALE))
        return found


def _trainer(mode: str) -> Type[Trainer]:
    module = importlib.import_module("netdyno_worker.frameworks.keras.on_" + mode)
    found: Type[Trainer] = module.Trainer
    return found
