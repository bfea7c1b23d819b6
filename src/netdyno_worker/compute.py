"""What a cell computes, as arrays in a folder: for parity checks, never timed."""

from __future__ import annotations

import json
import os
from typing import Callable, Dict, List, Mapping

import numpy as np

from netdyno_worker import weights
from netdyno_worker.adapter import Adapter
from netdyno_worker.protocol import Check

NAMES = "names.json"
# Elements of a parameter that are held in double precision at once.
CHUNK = 2**20

Put = Callable[[str, np.ndarray], None]


def compute(adapter: Adapter, check: Check, seed: int, put: Put) -> None:
    """Loss, logits, running statistics and gradients of one batch; then of some train steps.

    Each goes to ``put`` as it is there, which must copy it: together they may be gigabytes, and on
    a machine whose memory grows as it is used, each may cost more than what is computed.

    Names: ``loss``, ``logits``, ``running/NAME``, ``gradient/NAME`` (``gradient/images`` when it is
    asked for); and with train steps
    ``losses`` (before each step) and ``update/NAME`` (parameter after them less parameter before).
    """
    start = weights.Parameters(check.network, seed)
    images, labels = weights.batch(check.network, check.batch_size, seed, check.image_scale)
    adapter.load(start)
    adapter.set_batch(images, labels)
    adapter.forward()
    adapter.synchronize()
    put("loss", np.float64(adapter.loss()))
    put("logits", adapter.logits())
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
        put("running/" + name, value)
    for name, value in adapter.gradients().items():
        put("gradient/" + name, value)
    if check.input_gradient:
        put("gradient/images", adapter.input_gradient())
    if check.train_steps:
        _train(adapter, start, check.train_steps, put)


def _train(adapter: Adapter, start: Mapping[str, np.ndarray], steps: int, put: Put) -> None:
    adapter.load(start)
    losses = []
    for _ in range(steps):
        adapter.train_step()
        adapter.synchronize()
        losses.append(adapter.loss())
    put("losses", np.array(losses, np.float64))
    for name, value in adapter.parameters().items():
        put("update/" + name, _difference(value, start[name]))


def _difference(value: np.ndarray, start: np.ndarray) -> np.ndarray:
    """The difference of two near floats is exact in double precision, and no longer than them."""
    after, before = np.ravel(value), np.ravel(start)
    found = np.empty(value.shape, value.dtype)
    into = found.reshape(-1)
    for begin in range(0, after.size, CHUNK):
        part = slice(begin, begin + CHUNK)
        into[part] = np.subtract(after[part], before[part], dtype=np.float64)
    return found


class Folder:
    """Arrays as one ``.npy`` file each, with a list of their names; nothing is pickled."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._names: List[str] = []
        os.makedirs(path, exist_ok=True)

    def put(self, name: str, value: np.ndarray) -> None:
        path = os.path.join(self._path, "{}.npy".format(len(self._names)))
        np.save(path, np.ascontiguousarray(value).reshape(np.shape(value)))
        self._names.append(name)

    def close(self) -> None:
        """Until then it cannot be read."""
        with open(os.path.join(self._path, NAMES), "w", encoding="utf-8") as file:
            json.dump(self._names, file)


def read(folder: str) -> Dict[str, np.ndarray]:
    """What a ``Folder`` holds, mapped and not copied: a network's gradients may be a gigabyte.

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
