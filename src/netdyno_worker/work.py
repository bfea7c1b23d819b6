"""Whether the timed calls did their work: asked after the timed blocks, never timed itself.

A program of which only the loss is used may lawfully leave the backward pass out; a result may be
kept from an earlier iteration; an update may be skipped. None of that shows in a parity check that
was made at another time, so the trial that is timed is asked too.
"""

from __future__ import annotations

import math
from typing import Dict, Mapping, Tuple

import numpy as np

from netdyno_worker import weights
from netdyno_worker.adapter import Adapter
from netdyno_worker.protocol import Job

Arrays = Mapping[str, np.ndarray]
Batch = Tuple[np.ndarray, np.ndarray]

# Two computations of one gradient, in single precision and another order of summation.
SAME = 1e-2
# Two batches of independent images: gradients differ by their own size.
OTHER = 1e-3
# Elements that are compared at once.
CHUNK = 2**20


class WorkNotDoneError(Exception):
    """What was timed is not what it is said to be."""


def check(phase: str, adapter: Adapter, job: Job, batch: Batch, start: Arrays) -> None:
    """After the blocks of ``phase``, on ``batch`` with the parameters ``start``.

    Raises:
        WorkNotDoneError: see ``check_gradients`` and ``check_update``.
    """
    if phase == "forward_backward":
        other = weights.batch(job.network, job.batch_size, job.seed + 1)
        repeatable = all(layer.kind != "Dropout" for layer in job.network.layers)
        check_gradients(adapter, batch, other, repeatable)
    elif phase == "train_step":
        check_update(adapter, start)


def check_gradients(adapter: Adapter, batch: Batch, other: Batch, repeatable: bool) -> None:
    """After blocks of ``forward_backward`` on ``batch``: are its gradients there, and its own?

    ``repeatable``: nothing random is in the network, so that the same batch gives them again.

    Raises:
        WorkNotDoneError: a gradient is zero or not finite, is not that of ``batch``, or does not
            change with the batch.
    """
    timed = {name: np.array(value) for name, value in adapter.gradients().items()}
    for name, gradient in timed.items():
        if not np.isfinite(gradient).all() or not gradient.any():
            raise WorkNotDoneError(
                "the timed blocks left no gradient of {}: it is zero or not finite".format(name)
            )
    # One copy of all gradients is enough: the others are held against it one by one.
    from_other = _distances(adapter, other, timed)
    for name, distance in _distances(adapter, batch, timed).items():
        if repeatable and distance > SAME:
            raise WorkNotDoneError(
                "the timed blocks left another gradient of {} than their batch has".format(name)
            )
    for name, distance in from_other.items():
        if distance < OTHER:
            raise WorkNotDoneError("the gradient of {} does not change with the batch".format(name))


def _distances(adapter: Adapter, batch: Batch, timed: Arrays) -> Dict[str, float]:
    """How far the gradients of ``batch`` are from those that were timed, in relative L2."""
    adapter.set_batch(*batch)
    adapter.forward_backward()
    adapter.synchronize()
    return {name: _distance(value, timed[name]) for name, value in adapter.gradients().items()}


def _distance(found: np.ndarray, expected: np.ndarray) -> float:
    # In the order in which they lie in memory, where that is one: some frameworks keep transposes.
    order = "K" if found.strides == expected.strides else "C"
    own, reference = (np.ravel(value, order=order) for value in (found, expected))
    parts = [slice(begin, begin + CHUNK) for begin in range(0, own.size, CHUNK)]
    squares = sum(float(np.square(own[p] - reference[p], dtype=float).sum()) for p in parts)
    norm = sum(float(np.square(reference[p], dtype=float).sum()) for p in parts)
    return math.sqrt(squares / norm) if norm else math.sqrt(squares)


def check_update(adapter: Adapter, start: Arrays) -> None:
    """After blocks of ``train_step``: has every parameter moved from ``start``?

    Raises:
        WorkNotDoneError: one has not.
    """
    for name, value in adapter.parameters().items():
        if np.array_equal(value, start[name].astype(value.dtype)):
            raise WorkNotDoneError("the timed train steps did not update {}".format(name))
