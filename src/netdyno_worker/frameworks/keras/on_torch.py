"""Keras over PyTorch: eager, as ``fit`` runs it there; Keras' own optimizer.

After Keras' guide "Writing a training loop from scratch in PyTorch".
"""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, Mapping, Optional

import numpy as np

from netdyno_worker.adapter import UnsupportedError
from netdyno_worker.frameworks.keras.trainer import Trainer as Base
from netdyno_worker.frameworks.pytorch import adapter as pytorch
from netdyno_worker.frameworks.pytorch.memory import report
from netdyno_worker.lazy import Lazy
from netdyno_worker.memory import Reported
from netdyno_worker.protocol import Job


class Trainer(Base):
    title = "PyTorch"

    @classmethod
    def prepare(cls, job: Job) -> None:
        # Keras would take the GPU wherever there is one. It compares with "cuda", without a number.
        os.environ["KERAS_TORCH_DEVICE"] = "cuda" if job.device == "cuda:0" else job.device

    def configure(self) -> None:
        if self.job.precision == "fp64":
            # Each is cast to result_type(float64, float64), which is float32 (Keras 3.15).
            raise UnsupportedError(
                "Keras over PyTorch has matrix products in single precision only"
            )
        import torch

        self.torch = torch
        self.device = pytorch.find_device(torch, self.job.device)
        torch.set_num_threads(self.job.threads)
        torch.backends.cuda.matmul.allow_tf32 = self.job.precision == "tf32"
        torch.backends.cudnn.allow_tf32 = self.job.precision == "tf32"
        torch.backends.cudnn.benchmark = self.job.autotune

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        if self.model.jit_compile:
            raise UnsupportedError("this Keras compiles over PyTorch: netdyno runs it eagerly")

    def set_batch(self, images: np.ndarray, labels: np.ndarray) -> None:
        self._batch = tuple(
            self.torch.from_numpy(value).to(self.device) for value in (images, labels)
        )

    def _run(self, images: Any, labels: Any) -> Any:
        return self.built.judged(self.model(images, training=True), labels)

    def reported_memory(self, phase: str, run: Callable[[], None]) -> Reported:
        return report(self.torch, self.device, run)

    def forward(self) -> None:
        logits, loss = self._run(*self._batch)
        # Detached: whoever keeps the loss keeps every activation of the graph behind it.
        self._logits, self._loss = logits.detach(), loss.detach()

    def forward_backward(self) -> None:
        self.model.zero_grad()
        _, loss = self._run(*self._batch)
        (loss if self.scale == 1 else loss * self.scale).backward()
        if self.scale != 1:
            self.torch._foreach_mul_(self._found(), 1 / self.scale)
        self._loss = loss.detach()

    def _found(self) -> Any:
        return [variable.value.grad for variable in self.variables]

    def train_step(self) -> None:
        self.forward_backward()
        variables, found = self.variables, self._found()
        with self.torch.no_grad():
            values = [variable.value for variable in variables]
            self.torch._foreach_add_(found, values, alpha=self.job.hyperparameters.weight_decay)
            self.optimizer.apply(found, variables)

    def synchronize(self) -> None:
        if self.device.type == "cuda":
            self.torch.cuda.synchronize(self.device)

    def loss(self) -> float:
        return float(self._loss)

    def logits(self) -> np.ndarray:
        return self._logits.double().cpu().numpy()

    def gradients(self) -> Mapping[str, np.ndarray]:
        found = dict(zip(self.names, self._found()))
        return Lazy(found, lambda name: found[name].cpu().numpy())

    def input_gradient(self) -> np.ndarray:
        images, labels = self._batch
        images = images.detach().requires_grad_()
        _, loss = self._run(images, labels)
        (gradient,) = self.torch.autograd.grad(loss, images)
        return gradient.cpu().numpy()

    def versions(self) -> Dict[str, str]:
        torch = self.torch
        found = {"pytorch": torch.__version__}
        found.update(pytorch.config_versions(torch.__config__.show()))
        if self.device.type == "cuda":
            found["cuda"] = str(torch.version.cuda)
        return found

    def threads(self) -> Dict[str, Any]:
        return {"count": self.torch.get_num_threads(), "source": "torch.get_num_threads()"}

    def tf32(self) -> Optional[bool]:
        backends = self.torch.backends
        return bool(backends.cuda.matmul.allow_tf32 or backends.cudnn.allow_tf32)
