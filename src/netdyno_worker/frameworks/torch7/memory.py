"""Torch7's tensors, counted where they are: nn's modules keep what a pass has taken."""

from __future__ import annotations

import os
from typing import Any

from netdyno_worker.adapter import Adapter
from netdyno_worker.growth import Growth
from netdyno_worker.memory import Memory as Base
from netdyno_worker.memory import Reported
from netdyno_worker.protocol import Job

# glibc's, of the LuaJIT process: every block that counts is mapped by itself, and is gone from the
# resident size once it is freed. Its default raises the threshold with each block that is freed.
MALLOC = {"MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_THRESHOLD_": "65536"}
UNDO = ("MALLOC_MMAP_MAX_", "MALLOC_TRIM_THRESHOLD_")

SOURCE = "storages of the tensors in nn's modules"
KEEPS = "modules keep what a backward pass would read, whether it follows or not"
SUMS = "sums of gradients count as if Lua collected none of them during the pass"


class Memory(Base):
    """A pass begins here in a network that has been cleared, and takes everything anew."""

    observable = False

    @classmethod
    def prepare(cls, job: Job) -> None:
        os.environ.update(MALLOC)
        for name in UNDO:
            os.environ.pop(name, None)

    def __init__(self, adapter: Adapter, job: Job) -> None:
        super().__init__(adapter, job)
        self._torch: Any = adapter

    def other_instrument(self) -> Growth:
        return Growth(self.adapter.process_id)

    def run(self, phase: str) -> None:
        super().run(phase)
        self._torch.clear()

    def foreign_bytes(self, phase: str) -> int:
        """The logits, which are an output."""
        network = self.job.network
        losses = [layer for layer in network.layers if layer.kind == "SoftmaxCrossEntropy"]
        classes = sum(network.shape(name)[0] for name in {loss.inputs[0] for loss in losses})
        return int(self.job.batch_size * classes * self._torch.dtype.itemsize)

    def reported(self, phase: str) -> Reported:
        taken = self._torch.internal_bytes(phase)
        self._torch.clear()
        remarks = [KEEPS] if phase == "forward" else []
        remarks += [SUMS] if "sums" in taken else []
        return Reported(sum(taken.values()), "blobs", SOURCE, "; ".join(remarks))
