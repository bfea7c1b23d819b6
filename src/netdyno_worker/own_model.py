"""What a framework must do so that a person's own model can be measured in it.

Each framework that can has a class ``OwnModel``, derived from this one, in
``frameworks/<name>/own_model.py``; evaluate.py finds and drives it.
"""

from __future__ import annotations

import abc
import importlib
from typing import Any, Callable, FrozenSet, Optional, Set, Tuple

import numpy as np

from netdyno_worker.memory import Reported


class EvaluationError(ValueError):
    """Something given to ``evaluate_framework`` is wrong: one line, what and what to do."""


class OwnModel(abc.ABC):
    """Runs one person's model in one framework; ``frameworks/<name>/own_model.py`` derives it.

    Order of calls: ``accepts``, the constructor, ``put``, ``snapshot``, then any of
    ``forward_backward`` and ``train_step``, each of which may return before the work is done, and
    ``synchronize``, which may not, and then ``reported`` and ``whole_pass``; at last ``restore``.
    No clock is read here.

    ``title`` is the framework's name in messages. ``roots`` are the top-level modules that its
    models are defined in. ``is_function``: the model is itself the loss, and its parameters are
    given beside it.
    """

    title: str
    roots: FrozenSet[str]
    is_function = False

    @classmethod
    def accepts(cls, model: Any) -> bool:
        """Whether ``model`` is one of this framework's. Must not import the framework."""
        return not cls.roots.isdisjoint(module_roots(model))

    @abc.abstractmethod
    def __init__(
        self, model: Any, device: str, loss: Optional[Callable[..., Any]], parameters: Any
    ) -> None:
        """``device`` is ``cpu`` or ``cuda:N``; no ``loss`` is mean softmax cross-entropy.

        Raises:
            EvaluationError: there is no such device, or the model cannot be measured.
        """

    @abc.abstractmethod
    def put(self, images: Any, labels: Any) -> Tuple[Any, Any]:
        """The batch on the device. NumPy, or any framework's tensors."""

    @abc.abstractmethod
    def snapshot(self, batch: Tuple[Any, Any]) -> None:
        """Remember the model's state and go to training mode, with momentum 0.

        A model that makes its parameters at its first call makes them here, from ``batch``.
        """

    @abc.abstractmethod
    def forward_backward(self, batch: Tuple[Any, Any]) -> None:
        """Forward in training mode, loss, and the gradient of it by every trained parameter."""

    @abc.abstractmethod
    def train_step(self, batch: Tuple[Any, Any]) -> None:
        """Forward, backward and the SGD update of ``HYPERPARAMETERS``."""

    @abc.abstractmethod
    def synchronize(self) -> None:
        """Return when all work that was started is done."""

    @abc.abstractmethod
    def loss(self) -> float:
        """Of the last call."""

    def reported(self, batch: Tuple[Any, Any]) -> Optional[Reported]:
        """Internal memory of ``forward_backward`` as the framework tells it; None if it does not.

        It may run passes.
        """
        return None

    def whole_pass(self, batch: Tuple[Any, Any]) -> None:
        """``forward_backward`` to its end, with all that it takes given back before it returns.

        A framework that makes its plan once and keeps it makes it here, and drops it.
        """
        self.forward_backward(batch)
        self.synchronize()

    @abc.abstractmethod
    def restore(self) -> None:
        """Put the model back to what ``snapshot`` saw, and clear its gradients."""


def import_framework(name: str) -> Any:
    """The module, or an error that says that it is not there."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise EvaluationError(
            "{} cannot be imported ({}): install it beside netdyno, in the same Python".format(
                name, error
            )
        ) from error


def module_roots(model: Any) -> Set[str]:
    """Top-level modules that define the model's class and those it derives from."""
    return {base.__module__.split(".")[0] for base in type(model).__mro__}


def to_numpy(value: Any) -> np.ndarray:
    """Of NumPy or another framework's tensor; double precision, NumPy's default, to single."""
    array = np.asarray(value)
    return array.astype(np.float32) if array.dtype == np.float64 else array
