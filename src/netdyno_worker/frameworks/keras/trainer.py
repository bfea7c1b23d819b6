"""What training a Keras model has in common on every backend."""

from __future__ import annotations

import abc
import contextlib
from typing import Any, Callable, ClassVar, Dict, List, Mapping, Optional

import numpy as np

from netdyno_worker.adapter import LOSS_SCALE
from netdyno_worker.lazy import Lazy
from netdyno_worker.memory import Reported
from netdyno_worker.protocol import Job

POLICIES = {
    "fp32": "float32",
    "tf32": "float32",
    "fp64": "float64",
    "bf16": "mixed_bfloat16",
    "fp16": "mixed_float16",
}


class Trainer(abc.ABC):
    """The loop that Keras' guides write for one backend; see ``netdyno_worker.adapter``.

    ``gradients`` and the like are what the last call left, in Keras' layout of weights.
    """

    #: What to call the backend in messages.
    title: ClassVar[str]

    @classmethod  # noqa: B027 - not abstract
    def prepare(cls, job: Job) -> None:
        """Set what the backend reads at its import."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.configure()
        import keras

        from netdyno_worker.frameworks.keras import model

        self.keras = keras
        keras.config.set_floatx("float64" if job.precision == "fp64" else "float32")
        keras.config.set_dtype_policy(POLICIES[job.precision])
        self.scale = LOSS_SCALE if job.precision == "fp16" else 1.0
        with self.placed():
            self.built = model.build(
                job.network, job.batch_size, job.layout == "nhwc", job.seed % 2**31
            )
            self.model = self.built.model
            # Of the parameters, in the order of the model, with their names.
            self.variables: List[Any] = self.model.trainable_variables
            known = {id(variable): name for name, variable in self.built.parameters.items()}
            self.names = [known[id(variable)] for variable in self.variables]
            self.optimizer = keras.optimizers.SGD(
                job.hyperparameters.learning_rate, momentum=job.hyperparameters.momentum
            )
            self.optimizer.build(self.variables)
        # As fit() would decide it for this model and backend.
        self.model.compile(jit_compile="auto")

    @abc.abstractmethod
    def configure(self) -> None:
        """Import the backend; set its threads, device and TF32. Raises UnsupportedError."""

    def placed(self) -> Any:
        """A context in which variables land on the device."""
        return contextlib.nullcontext()

    def load(self, parameters: Mapping[str, np.ndarray]) -> None:
        """``parameters`` in the neutral layout."""
        with self.placed():
            for name, variable in self.built.parameters.items():
                variable.assign(inward(parameters[name]))
            for mean, variance in self.built.running.values():
                mean.assign(np.zeros(mean.shape))
                variance.assign(np.ones(variance.shape))
            for momentum in self.optimizer.momentums:
                momentum.assign(self.keras.ops.zeros(momentum.shape, momentum.dtype))

    @abc.abstractmethod
    def set_batch(self, images: np.ndarray, labels: np.ndarray) -> None: ...

    @abc.abstractmethod
    def forward(self) -> None: ...

    @abc.abstractmethod
    def forward_backward(self) -> None: ...

    @abc.abstractmethod
    def train_step(self) -> None: ...

    @abc.abstractmethod
    def synchronize(self) -> None: ...

    @abc.abstractmethod
    def loss(self) -> float: ...

    @abc.abstractmethod
    def logits(self) -> np.ndarray: ...

    @abc.abstractmethod
    def gradients(self) -> Mapping[str, np.ndarray]: ...

    @abc.abstractmethod
    def input_gradient(self) -> np.ndarray: ...

    def parameters(self) -> Mapping[str, np.ndarray]:
        found = self.built.parameters
        return Lazy(found, lambda name: self.keras.ops.convert_to_numpy(found[name]))

    def running(self) -> Dict[str, Any]:
        """Mean and variance of each batch norm."""
        to_numpy = self.keras.ops.convert_to_numpy
        return {
            name: tuple(to_numpy(one) for one in pair) for name, pair in self.built.running.items()
        }

    def reported_memory(self, phase: str, run: Callable[[], None]) -> Reported:
        """What the backend tells of ``phase``, which ``run`` runs; see memory.Memory."""
        return Reported(None, "", "", "Keras over {} tells nothing".format(self.title))

    @abc.abstractmethod
    def versions(self) -> Dict[str, str]: ...

    @abc.abstractmethod
    def threads(self) -> Dict[str, Any]: ...

    @abc.abstractmethod
    def tf32(self) -> Optional[bool]: ...


def without_autotuning(flags: str) -> str:
    """``XLA_FLAGS`` under which XLA takes the first algorithm of a convolution that works."""
    return (flags + " --xla_gpu_autotune_level=0").strip()


def inward(value: np.ndarray) -> np.ndarray:
    """OIHW to HWIO, (out, in) to (in, out): Keras has one layout of weights on every backend."""
    if value.ndim == 4:
        return np.ascontiguousarray(value.transpose(2, 3, 1, 0))
    return np.ascontiguousarray(value.T)


def outward(value: np.ndarray) -> np.ndarray:
    return value.transpose(3, 2, 0, 1) if value.ndim == 4 else value.T
