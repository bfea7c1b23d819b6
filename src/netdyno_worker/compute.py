"""What a cell computes, as arrays in a folder: for parity checks, never timed."""

from __future__ import annotations

import json
import os
from typing import Dict, Mapping

import numpy as np

from netdyno_worker import weights
from netdyno_worker.adapter import Adapter
from netdyno_worker.protocol import Check

NAMES = "names.json"


def compute(adapter: Adapter, check: Check, seed: int) -> Dict[str, np.ndarray]:
    """Loss, logits, running statistics and gradients of one batch; then of some train steps.

    Keys: ``loss``, ``logits``, ``running/NAME``, ``gradient/NAME`` (``gradient/images`` when it is
    asked for); and with train steps
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
    if check.input_gradient:
        found["gradient/images"] = np.array(adapter.input_gradient())
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
        update = np.subtract(value, start[name], dtype=np.float64)
        found["update/" + name] = update.astype(value.dtype, copy=False)
    return found


def save(arrays: Dict[str, np.ndarray], folder: str) -> None:
    """As one ``.npy`` file each, with a list of their names beside them; nothing is pickled."""
    os.makedirs(folder, exist_ok=True)
    names = sorted(arrays)
    for index, name in enumerate(names):
        path = os.path.join(folder, "{}.npy".format(index))
        np.save(path, np.ascontiguousarray(arrays[name]).reshape(arrays[name].shape))
    with open(os.path.join(folder, NAMES), "w", encoding="utf-8") as file:
        json.dump(names, file)


def read(folder: str) -> Dict[str, np.ndarray]:
    """What ``save`` wrote, mapped and not copied: a network's gradients may be a gigabyte.

    Raises ValueError for a file that holds anything but an array.
    """
    with open(os.path.join(folder, NAMES), encoding="utf-8") as file:
        names = json.load(file)
    return {
        name: np.load(
            os.path.join(folder, "{}.npy".format(index)), mmap_mode="r", allow_pickle=False
        )
        for index, name in enumerate(names)
    }
