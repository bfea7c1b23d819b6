"""A person's JAX loss function, inside ``jax.jit`` with gradient and update.

It works on a copy of the parameters: the person's are never written to.
"""

from __future__ import annotations

import functools
import inspect
from typing import Any, Callable, Optional, Tuple

from netdyno_worker.memory import Reported
from netdyno_worker.own_model import EvaluationError, import_framework, to_numpy
from netdyno_worker.own_model import OwnModel as Base
from netdyno_worker.protocol import HYPERPARAMETERS


class OwnModel(Base):
    title = "JAX"
    roots = frozenset({"jax", "jaxlib"})
    is_function = True

    @classmethod
    def accepts(cls, model: Any) -> bool:
        # A function says nothing of its framework. Others' models are objects, so it is JAX's.
        plain = inspect.isfunction(model) or inspect.ismethod(model)
        return plain or isinstance(model, functools.partial) or super().accepts(model)

    def __init__(
        self, model: Any, device: str, loss: Optional[Callable[..., Any]], parameters: Any
    ) -> None:
        jax = self.jax = import_framework("jax")
        self.model = model
        self.device = _find_device(jax, device)
        self.given = parameters
        if not jax.tree_util.tree_leaves(parameters):
            raise EvaluationError("parameters= holds no array: nothing to train")

    def put(self, images: Any, labels: Any) -> Tuple[Any, Any]:
        return self._put(images), self._put(labels)

    def _put(self, value: Any) -> Any:
        if not isinstance(value, self.jax.Array):
            value = to_numpy(value)
        return self.jax.device_put(value, self.device)

    def snapshot(self, batch: Tuple[Any, Any]) -> None:
        jax, copy_of = self.jax, self.jax.numpy.array
        tree_map = jax.tree_util.tree_map
        # Copied, since the step takes over the memory of what it is given.
        self._parameters = tree_map(lambda w: jax.device_put(copy_of(w), self.device), self.given)
        self._momenta = tree_map(jax.numpy.zeros_like, self._parameters)
        self._total = jax.device_put(jax.numpy.zeros(()), self.device)
        self._loss = self._gradients = None
        rate, momentum, decay = HYPERPARAMETERS

        def gradients(parameters: Any, images: Any, labels: Any, total: Any) -> Any:
            loss, grads = jax.value_and_grad(self.model)(parameters, images, labels)
            # The sum ties each call to the one before: JAX may otherwise run them side by side.
            return loss, grads, total + loss

        def step(parameters: Any, momenta: Any, images: Any, labels: Any) -> Any:
            loss, grads = jax.value_and_grad(self.model)(parameters, images, labels)
            momenta = tree_map(
                lambda v, g, w: momentum * v + (g + decay * w), momenta, grads, parameters
            )
            return loss, tree_map(lambda w, v: w - rate * v, parameters, momenta), momenta

        self._gradients_of = jax.jit(gradients)
        self._step = jax.jit(step, donate_argnums=(0, 1))

    def forward_backward(self, batch: Tuple[Any, Any]) -> None:
        self._loss, self._gradients, self._total = self._gradients_of(
            self._parameters, *batch, self._total
        )

    def train_step(self, batch: Tuple[Any, Any]) -> None:
        self._loss, self._parameters, self._momenta = self._step(
            self._parameters, self._momenta, *batch
        )
        self._gradients = None  # else those of the last forward_backward stay in memory

    def synchronize(self) -> None:
        # Everything that was started: the outputs of a call become ready one by one.
        self.jax.block_until_ready(
            (self._loss, self._gradients, self._total, self._parameters, self._momenta)
        )

    def loss(self) -> float:
        return float(self._loss)

    def reported(self, batch: Tuple[Any, Any]) -> Optional[Reported]:
        lowered = self._gradients_of.lower(self._parameters, *batch, self._total)
        analysis = lowered.compile().memory_analysis()
        if analysis is None:  # not every backend has one
            return None
        return Reported(
            analysis.temp_size_in_bytes,
            "static plan",
            "jax.stages.Compiled.memory_analysis()",
            "what kernels allocate as they run is not in it",
        )

    def restore(self) -> None:
        # The person's parameters were never touched; what is left is memory to give back.
        del self._parameters, self._momenta, self._gradients, self._total


def _find_device(jax: Any, name: str) -> Any:
    platform, _, index = name.partition(":")
    try:
        return jax.devices(platform)[int(index or 0)]
    except (RuntimeError, IndexError):
        raise EvaluationError(
            "JAX {} sees no {}: give another device, one of {}".format(
                jax.__version__, name, ", ".join(str(device) for device in jax.devices())
            )
        ) from None
