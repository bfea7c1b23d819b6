"""A person's ``torch.nn.Module``, run exactly as it is given: eager, scripted or compiled."""

from __future__ import annotations

from typing import Any, Callable, Optional, Tuple

import numpy as np

from netdyno_worker.adapter import UnsupportedError
from netdyno_worker.frameworks.pytorch.adapter import find_device
from netdyno_worker.frameworks.pytorch.memory import report
from netdyno_worker.memory import Reported
from netdyno_worker.own_model import (
    EvaluationError,
    import_framework,
    module_roots,
    to_numpy,
)
from netdyno_worker.own_model import OwnModel as Base
from netdyno_worker.protocol import HYPERPARAMETERS


class OwnModel(Base):
    title = "PyTorch"
    roots = frozenset({"torch"})

    @classmethod
    def accepts(cls, model: Any) -> bool:
        # A Keras model over PyTorch is a torch.nn.Module too, but is called in another way.
        return super().accepts(model) and "keras" not in module_roots(model)

    def __init__(
        self, model: Any, device: str, loss: Optional[Callable[..., Any]], parameters: Any
    ) -> None:
        torch = self.torch = import_framework("torch")
        if not isinstance(model, torch.nn.Module):
            raise EvaluationError(
                "the model is a {}: give a torch.nn.Module".format(type(model).__name__)
            )
        self.model = model
        self.device = _find_device(torch, device)
        self._loss_of = loss or self._cross_entropy
        if any(isinstance(w, torch.nn.UninitializedParameter) for w in model.parameters()):
            raise EvaluationError("the model has lazy parameters: call it once on a batch first")
        self.trained = [w for w in model.parameters() if w.requires_grad]
        if not self.trained:
            raise EvaluationError("no parameter of the model has requires_grad: nothing to train")
        for parameter in model.parameters():
            if parameter.device != self.device:
                raise EvaluationError(
                    "the model is on {}, device is {}: call model.to('{}') first".format(
                        parameter.device, self.device, self.device
                    )
                )

    def put(self, images: Any, labels: Any) -> Tuple[Any, Any]:
        return self._put(images), self._put(labels)

    def _put(self, value: Any) -> Any:
        if not isinstance(value, self.torch.Tensor):
            # PyTorch shares the array's memory, and refuses or warns unless it is like this.
            value = self.torch.from_numpy(np.require(to_numpy(value), requirements=["C", "W"]))
        return value.to(self.device, non_blocking=True)

    def snapshot(self, batch: Tuple[Any, Any]) -> None:
        modules = list(self.model.modules())
        self.training = [(module, module.training) for module in modules]
        self.parameters = [(w, w.detach().clone()) for w in self.model.parameters()]
        # A module may replace a buffer instead of writing to it, so its place is kept too.
        self.buffers = [
            (module, name, buffer, buffer.detach().clone())
            for module in modules
            for name, buffer in module.named_buffers(recurse=False)
        ]
        rate, momentum, decay = HYPERPARAMETERS
        self.optimizer = self.torch.optim.SGD(
            self.trained, lr=rate, momentum=momentum, weight_decay=decay
        )
        self.model.train()

    def forward_backward(self, batch: Tuple[Any, Any]) -> None:
        images, labels = batch
        self._clear_gradients()
        loss = self._loss_of(self.model(images), labels)
        if loss.ndim:
            loss = loss.mean()
        loss.backward()
        # Detached: whoever keeps the loss keeps every activation of the graph behind it.
        self._loss = loss.detach()

    def train_step(self, batch: Tuple[Any, Any]) -> None:
        self.forward_backward(batch)
        self.optimizer.step()

    def synchronize(self) -> None:
        if self.device.type == "cuda":
            self.torch.cuda.synchronize(self.device)

    def loss(self) -> float:
        return float(self._loss)

    def reported(self, batch: Tuple[Any, Any]) -> Reported:
        return report(self.torch, self.device, lambda: self.whole_pass(batch))

    def restore(self) -> None:
        self._clear_gradients()
        with self.torch.no_grad():
            for parameter, value in self.parameters:
                parameter.copy_(value)
            for module, name, buffer, value in self.buffers:
                buffer.copy_(value)
                setattr(module, name, buffer)
        for module, training in self.training:
            module.training = training

    def _clear_gradients(self) -> None:
        for parameter in self.trained:
            parameter.grad = None

    def _cross_entropy(self, outputs: Any, labels: Any) -> Any:
        if not isinstance(outputs, self.torch.Tensor):
            raise EvaluationError(
                "the model's output is a {}, not a tensor: give loss=".format(
                    type(outputs).__name__
                )
            )
        return self.torch.nn.functional.cross_entropy(outputs, labels.long())


def _find_device(torch: Any, name: str) -> Any:
    try:
        device = find_device(torch, name)
    except UnsupportedError as error:
        raise EvaluationError("{}: give another device".format(error)) from None
    if device.type == "cuda" and device.index >= torch.cuda.device_count():
        raise EvaluationError(
            "PyTorch sees {} CUDA devices, not {}: give another device".format(
                torch.cuda.device_count(), name
            )
        )
    return device
