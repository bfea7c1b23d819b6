"""What a framework's ``adapter.py`` must provide: a class ``Adapter`` derived from this one."""

from __future__ import annotations

import abc
import os
from typing import Any, Dict, List, Mapping, Optional

import numpy as np

from netdyno_worker.loop import DeviceEvents
from netdyno_worker.protocol import Job

# What the loss is multiplied by in fp16, and gradients divided by: a power of two, so that nothing
# is rounded, the same in every framework, and constant. One that adapts would skip updates that
# are timed; four times as much overflows in the parity checks of single layers.
LOSS_SCALE = 2.0**10


class UnsupportedError(Exception):
    """The framework cannot express the network, or lacks the device: the cell is skipped."""


def tf32_is_forbidden() -> bool:
    """Whether NVIDIA's libraries were told to leave TF32 alone, whatever a framework asks of them.

    0 is the only value that means something: NVIDIA, "Accelerating AI Training with NVIDIA TF32
    Tensor Cores". They read it once, so it is set in ``Adapter.prepare``.
    """
    return os.environ.get("NVIDIA_TF32_OVERRIDE") == "0"


class Adapter(abc.ABC):
    """Runs one network in one framework.

    Order of calls: ``prepare(job)``, ``Adapter(job)``, ``load``, ``set_batch``, then any of
    ``forward``, ``forward_backward``, ``train_step``, each of which may return before the work is
    done, and ``synchronize``, which may not. An adapter never reads a clock.

    Arrays that cross this interface are NumPy in the neutral layout: images ``(N, C, H, W)``,
    convolution weights ``(out, in/groups, kh, kw)``, dense weights ``(out, in)``.
    """

    #: Of the process that does the work, where it is a child of this one.
    process_id: Optional[int] = None

    @classmethod  # noqa: B027 - not abstract: most have nothing to set
    def prepare(cls, job: Job) -> None:
        """Set what must be set before the framework is imported (thread counts, caches).

        The launcher has set ``OMP_NUM_THREADS`` and its like: here belongs what is the
        framework's own.
        """

    @classmethod  # noqa: B027 - not abstract: who imports nothing here does so in __init__
    def imports(cls, job: Job) -> None:
        """Import what ``__init__`` will import, no more, and leave the device alone.

        Called after ``prepare``, and only where a trial is prepared while another one has the
        device: no context may be made there, and no thread or process may be left at work.
        """

    @abc.abstractmethod
    def __init__(self, job: Job) -> None:
        """Import the framework and build the network for ``job``'s batch size and device.

        Raises:
            UnsupportedError: the framework cannot express the network or has no such device.
        """

    @abc.abstractmethod
    def load(self, parameters: Mapping[str, np.ndarray]) -> None:
        """Set every parameter; momentum to zero, running statistics to mean 0, variance 1."""

    @abc.abstractmethod
    def set_batch(self, images: np.ndarray, labels: np.ndarray) -> None:
        """Put a batch, float32 images and int32 labels, on the device."""

    @abc.abstractmethod
    def forward(self) -> None:
        """Forward pass in training mode, loss included."""

    @abc.abstractmethod
    def forward_backward(self) -> None:
        """Forward pass, and the gradient of the loss by every parameter, none by the images."""

    @abc.abstractmethod
    def train_step(self) -> None:
        """Forward, backward and the SGD update of ``job.hyperparameters``."""

    @abc.abstractmethod
    def synchronize(self) -> None:
        """Return when all work that was started is done."""

    @abc.abstractmethod
    def loss(self) -> float:
        """Sum of the losses of the last call."""

    @abc.abstractmethod
    def logits(self) -> np.ndarray:
        """``(N, classes)`` of the last ``forward``."""

    @abc.abstractmethod
    def gradients(self) -> Mapping[str, np.ndarray]:
        """By parameter name, of the last ``forward_backward``; valid until the next call."""

    def input_gradient(self) -> np.ndarray:
        """Of the loss by the batch's images, ``(N, C, H, W)``. For parity checks: never timed.

        Raises:
            UnsupportedError: the adapter has no way to compute it.
        """
        raise UnsupportedError("this adapter gives no gradient by the images")

    @abc.abstractmethod
    def parameters(self) -> Mapping[str, np.ndarray]:
        """By name, as they are now; valid until the next call."""

    def running_statistics(self) -> Dict[str, np.ndarray]:
        """Of each batch norm: ``NAME.running_mean`` and ``NAME.running_variance``."""
        return {}

    @abc.abstractmethod
    def versions(self) -> Dict[str, str]:
        """Of the framework and of each kernel library inside it, by name.

        cuDNN, cuBLAS and NCCL are found by libraries.py where they are loaded.
        """

    @abc.abstractmethod
    def threads(self) -> Dict[str, Any]:
        """Thread counts in force: ``{"count": 2, "source": "torch.get_num_threads()"}``."""

    def tf32(self) -> Optional[bool]:
        """Whether TF32 may stand in for single precision in what was timed.

        None where the framework does not tell. The default is that of a CPU, which has none.
        """
        return False

    def device_events(self) -> Optional[DeviceEvents]:
        """How to mark the device's own queue of work; None where the framework offers no way."""
        return None

    def notes(self) -> List[str]:
        """What was not done like the others; empty when nothing was."""
        return []
