"""What a cell computes, as arrays in a file: for parity checks, never timed."""

from __future__ import annotations

from typing import Dict, Mapping

import numpy as np

from netdyno_worker import weights
from netdyno_worker.adapter import Adapter
from netdyno_worker.protocol import Check


def compute(adapter: Adapter, check: Check, seed: int) -> Dict[str, np.ndarray]:
    """Loss, logits, running statistics and gradients of one batch; then of some train steps.

    Keys: ``loss``, ``logits``, ``running/NAME``, ``gradient/NAME``; and with train steps
    ``losses`` (before each step) and ``update/NAME`` (parameter after them less parameter before).
    """
    start = weights.Parameters(check.network, seed)
    images, labels = weights.batch(check.network, check.batch_size, seed, check.image_scale)
    adapter.load(start)
    adapter.set_batch(images, labels)
    adapter.forward()
    adapter.synchronize()
    found = {"loss": np.float64(adapter.loss()), "logits": np.array(adapter.logits())}
    # Another batch first: gradients that are kept from an earlier call would show.
    adapter.set_batch(images[::-1].copy(), labels)
    adapter.forward_backward()
    adapter.synchronize()
    adapter.load(start)
    adapter.set_batch(images, labels)
    adapter.forward_backward()
    adapter.synchronize()
    # Asked here and not before: MXNet updates them in the backward pass.
    for name, value in adapter.running_statistics().items():
        found["running/" + name] = np.array(value)
    for name, value in adapter.gradients().items():
        found["gradient/" + name] = np.array(value)
    if check.train_steps:
        found.update(_train(adapter, start, check.train_steps))
    return found


def _train(adapter: Adapter, start: Mapping[str, np.ndarray], steps: int) -> Dict[str, np.ndarray]:
    adapter.load(start)
    losses = []
    for _ in range(steps):
        adapter.train_step()
        adapter.synchronize()
        losses.append(adapter.loss())
    found = {"losses": np.array(losses, np.float64)}
    for name, value in adapter.parameters().items():
        # The difference of two near floats is exact in double precision, and no longer than them.
        update = np.array(value, np.float64) - start[name]
        found["update/" + name] = update.astype(value.dtype)
    return found


def save(arrays: Dict[str, np.ndarray], path: str) -> None:
    """As ``.npz`` of plain arrays: nothing in it is pickled."""
    # Member names may not hold a slash on every platform: numbered, with the names beside them.
    names = sorted(arrays)
    numbered = {"a{}".format(index): arrays[name] for index, name in enumerate(names)}
    with open(path, "wb") as file:
        np.savez(file, names=np.array(names), **numbered)


def read(path: str) -> Dict[str, np.ndarray]:
    """What ``save`` wrote. Raises ValueError for a file that holds anything but arrays."""
    with np.load(path, allow_pickle=False) as file:
        return {str(name): file["a{}".format(i)] for i, name in enumerate(file["names"])}
