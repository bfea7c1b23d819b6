"""Does no work: a framework whose behaviour is known, to test everything around it.

Its mode says how it behaves: ``steady`` (a phase is some additions), ``drift`` (slower
each iteration), ``leak`` (keeps a megabyte an iteration), ``garbage`` (prints to stdout),
``diverge`` (loss is not a number), and, at the first ``forward_backward``: ``raise``, ``crash``
(segmentation fault), ``hang``, ``oom``, ``killed`` (by a signal that cannot be caught). Where it is
prepared ahead of its turn, ``slow_import`` takes half a second for it, ``bad_import`` raises and
``hung_import`` never comes back; otherwise they are steady.
"""

from __future__ import annotations

import ctypes
import math
import os
import signal
import time
from typing import Any, Dict, List, Mapping

import numpy as np

from netdyno_worker.adapter import Adapter as Base
from netdyno_worker.protocol import Job

# Additions of one forward pass: a fraction of a millisecond, and steadier than a sleep.
FORWARD_ADDITIONS = 20_000


class Adapter(Base):
    @classmethod
    def imports(cls, job: Job) -> None:
        if job.mode == "slow_import":
            time.sleep(0.5)
        if job.mode == "bad_import":
            raise ImportError("told to fail at import")
        while job.mode == "hung_import":
            time.sleep(3600)

    def __init__(self, job: Job) -> None:
        self.mode = job.mode
        self.classes = job.network.classes
        self.iterations = 0
        self.kept: List[bytearray] = []

    def load(self, parameters: Mapping[str, np.ndarray]) -> None:
        self._parameters = parameters

    def set_batch(self, images: np.ndarray, labels: np.ndarray) -> None:
        self.batch_size = len(images)

    def _work(self, forwards: float) -> None:
        self.iterations += 1
        slower = 1 + 0.2 * self.iterations if self.mode == "drift" else 1
        sum(range(int(FORWARD_ADDITIONS * forwards * slower)))
        if self.mode == "leak":
            self.kept.append(bytearray(os.urandom(1 << 20)))
        elif self.mode == "garbage":
            print('{"event": "block", "seconds": -1}\x00\xff garbage', flush=True)

    def forward(self) -> None:
        self._work(1)

    def forward_backward(self) -> None:
        self._misbehave()
        self._work(3)

    def train_step(self) -> None:
        self._work(4)

    def _misbehave(self) -> None:
        if self.mode == "raise":
            raise RuntimeError("told to raise")
        if self.mode == "oom":
            raise MemoryError("told to run out of memory")
        if self.mode == "crash":
            ctypes.string_at(0)
        if self.mode == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        while self.mode == "hang":
            time.sleep(3600)

    def synchronize(self) -> None:
        pass

    def loss(self) -> float:
        return math.nan if self.mode == "diverge" else math.log(self.classes)

    def logits(self) -> np.ndarray:
        return np.zeros((self.batch_size, self.classes), np.float32)

    def gradients(self) -> Dict[str, np.ndarray]:
        return {name: np.zeros_like(value) for name, value in self._parameters.items()}

    def parameters(self) -> Dict[str, np.ndarray]:
        return dict(self._parameters)

    def versions(self) -> Dict[str, str]:
        return {"null": "1"}

    def threads(self) -> Dict[str, Any]:
        return {"count": 1, "source": "it only counts"}
