"""What a cell computes, as arrays in a file: for parity checks, never timed."""

from __future__ import annotations

from typing import Dict

import numpy as np

from netdyno_worker import weights
from netdyno_worker.adapter import Adapter
from netdyno_worker.protocol import Job

TRAIN_STEPS = 3


def compute(adapter: Adapter, job: Job) -> Dict[str, np.ndarray]:
    """Loss, logits, gradients from one batch, then the parameters after some train steps.

    Keys: ``loss``, ``logits``, ``gradient/NAME``, ``updated/NAME`` and ``losses`` (of the steps).
    """
    start = weights.parameters(job.network, job.seed)
    adapter.load(start)
    adapter.set_batch(*weights.batch(job.network, job.batch_size, job.seed))
    adapter.forward()
    adapter.synchronize()
    found = {"loss": np.float64(adapter.loss()), "logits": adapter.logits()}
    adapter.forward_backward()
    adapter.synchronize()
    for name, value in adapter.gradients().items():
        found["gradient/" + name] = np.array(value)
    adapter.load(start)
    losses = []
    for _ in range(TRAIN_STEPS):
        adapter.train_step()
        adapter.synchronize()
        losses.append(adapter.loss())
    found["losses"] = np.array(losses)
    for name, value in adapter.parameters().items():
        found["updated/" + name] = np.array(value)
    return found


def save(arrays: Dict[str, np.ndarray], path: str) -> None:
    """As ``.npz`` of plain arrays: nothing in it is pickled."""
    # Member names may not hold a slash on every platform: numbered, with the names beside them.
    names = sorted(arrays)
    numbered = {"a{}".format(index): arrays[name] for index, name in enumerate(names)}
    with open(path, "wb") as file:
        np.savez(file, names=np.array(names), **numbered)


def read(path: str) -> Dict[str, np.ndarray]:
    with np.load(path, allow_pickle=False) as file:
        return {str(name): file["a{}".format(i)] for i, name in enumerate(file["names"])}
